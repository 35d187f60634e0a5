//! What the first blocks of a copy measure of a path whose rate is known: nothing else may take the
//! time of either end.

use crate::told::measured;
use farline_lab::{LinkUp, alone};
use serde_json::Value;

/// Over a path whose rate is known, from a host whose socket buffers take a whole copy, both ways.
#[test]
fn first_blocks_measure_no_more_than_the_path_carries() {
    alone();
    for (mbps, seconds) in [(100_u64, 4), (300, 4), (1_000, 4)] {
        let rate = format!("{mbps}M");
        let path = ["custom", "--rtt", "20ms", "--rate", &rate, "--mtu", "1500"];
        let Some(link) = LinkUp::up("t-told", &path) else { return };
        for side in ["a", "b"] {
            let large = ["sysctl", "-qw", "net.ipv4.tcp_wmem=4096 16777216 67108864"];
            assert!(link.exec(side, &large).status.success());
        }
        let root = tempfile::tempdir().expect("a folder");
        let _node = link.node(root.path(), &["--allow-null", "--allow-memory", "1GiB"]);
        let size = mbps * 125_000 * seconds;
        for (from, to) in [
            (format!("memory:{size}"), "farline://10.77.0.2:2811/?null".to_owned()),
            (format!("farline://10.77.0.2:2811/?memory={size}"), "null:".to_owned()),
        ] {
            let mut least_off = f64::INFINITY;
            // Never more; and about that as soon as the machine has the time.
            for _ in 0..4 {
                let mut copy = link.farline("a", &["--json", "cp", &from, &to]);
                let outcome: Value =
                    serde_json::from_slice(&copy.output().expect("runs").stdout).expect("JSON");
                assert_ne!(outcome["limited_by"], "set_up", "{from}: {outcome}");
                let Some(told) = measured(&outcome) else { continue };
                assert!(told <= mbps as f64, "{from}: {told} over {mbps} Mbit/s: {outcome}");
                least_off = least_off.min(mbps as f64 / told);
                if least_off < 1.25 {
                    break;
                }
            }
            assert!(least_off < 1.25, "{from}: the path has {least_off} times what was told");
        }
    }
}
