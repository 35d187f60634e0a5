//! A reservation over several routes in a network of several sites: an agent makes a circuit of
//! each.

use farline_lab::circuits::{BookedNetwork, NoNetwork};
use farline_lab::{own_name, wait_for};
use serde_json::Value;
use std::path::Path;

/// From a to c there are two ways: at once, and by b, of 10 ms for each link.
fn triangle(folder: &Path) -> Option<BookedNetwork> {
    let (name, file) = (own_name("routes").to_lowercase(), folder.join("network.toml"));
    let link = |(a, b): (&str, &str)| {
        format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1G\"\none_way_delay = \"10ms\"\n")
    };
    let links: String = [("a", "b"), ("b", "c"), ("a", "c")].map(link).concat();
    let text = format!("name = \"{name}\"\nsites = [\"a\", \"b\", \"c\"]\n{links}");
    std::fs::write(&file, text).expect("written");
    match BookedNetwork::up(&file.to_string_lossy(), folder, "50M") {
        Ok(net) => Some(net),
        Err(NoNetwork::NotHere(why)) => {
            farline_lab::skip(format!("this machine does not let us make a network: {why}"));
            None
        }
        Err(NoNetwork::Failed(why)) => panic!("{why}"),
    }
}

/// The circuits of `net` that are open, in the order of their devices.
fn open(net: &BookedNetwork) -> Vec<Value> {
    let shown = net.shown();
    let all = shown["state"]["circuits"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|known| known["open"] == true).collect()
}

/// The least round trip from a to `address` in milliseconds; none without a reply.
fn pinged(net: &BookedNetwork, address: &str) -> Option<f64> {
    let mut ping = net.exec("a");
    let output = ping.args(["ping", "-n", "-c", "3", "-i", "0.2", address]).output();
    let said = String::from_utf8_lossy(&output.expect("ping runs").stdout).into_owned();
    said.split("rtt min/avg/max/mdev = ").nth(1)?.split('/').next()?.parse().ok()
}

#[test]
fn a_volume_over_two_routes_has_two_circuits() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mut net) = triangle(dir.path()) else { return };
    drop(net.start_agent());
    // More than a link carries in an hour, and less than two.
    let book = ["reserve", "a", "c", "--volume", "700GB", "--start", "now", "--by", "+1h"];
    let alone = net.told(&[&book[..], &["--variable"]].concat());
    assert_eq!(alone["error"]["code"], "calendar-refused", "one route does not do: {alone}");
    let booked = net.told(&[&book[..], &["--several"]].concat());
    let legs = booked["legs"].as_array().unwrap_or_else(|| panic!("{booked}"));
    assert_eq!(legs.len(), 2, "{booked}");
    wait_for("both circuits are open", || open(&net).len() == 2);
    let circuits = open(&net);
    let mut trips: Vec<f64> = Vec::new();
    for (circuit, device) in circuits.iter().zip(["c16", "c17"]) {
        assert_eq!(circuit["device"], device, "{circuit}");
        let address = circuit["to_address"].as_str().expect("an address");
        trips.extend(pinged(&net, address));
    }
    trips.sort_by(f64::total_cmp);
    assert_eq!(trips.len(), 2, "both carry: {circuits:?}");
    // Each over its own route: 10 ms of one link, or 20 of two, there and back.
    assert!((20.0..40.0).contains(&trips[0]) && trips[1] >= 40.0, "{trips:?}");
    let id = booked["id"].as_str().expect("text");
    assert_eq!(net.told(&["reserve", "cancel", id])["state"], "terminated");
    wait_for("both are taken away", || {
        net.shown()["state"]["circuits"].as_array().is_some_and(Vec::is_empty)
    });
}
