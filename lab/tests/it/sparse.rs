//! Files with holes, direct I/O and fixed socket buffers: here, up to a node and down from it.

use farline_lab::files::random;
use farline_lab::{farline, globus_server, node, succeed};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A file of 96 MiB and three bytes: a hole, data, a hole, a little data, a hole to its end.
fn sparse(path: &Path) {
    let file = std::fs::File::create(path).expect("made");
    file.set_len(96 * MIB + 3).expect("long");
    file.write_all_at(&random(13, (3 * MIB) as usize), 20 * MIB + 4096).expect("written");
    file.write_all_at(b"end", 60 * MIB).expect("written");
}

fn allocated(path: &Path) -> u64 {
    let file = std::fs::File::open(path).expect("there");
    // Delayed allocation would count nothing yet.
    file.sync_all().expect("synced");
    file.metadata().expect("known").blocks() * 512
}

fn same(a: &Path, b: &Path) {
    succeed(std::process::Command::new("cmp").arg(a).arg(b));
}

#[test]
fn holes_stay_holes_and_the_digest_is_that_of_the_whole_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    sparse(&file);
    if allocated(&file) > 8 * MIB {
        farline_lab::skip(format!("the file system of {} makes no holes", dir.path().display()));
        return;
    }
    std::fs::File::create(dir.path().join("hole"))
        .and_then(|file| file.set_len(5 * MIB + 1))
        .expect("a hole alone");
    let (_node, url) = node(&root, "write", &[]);
    let (_globus, globus) = globus_server();
    let up = format!("{url}/up");
    let stock = format!("{globus}{}", root.join("up").display());
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let at = |name: &str| dir.path().join(name);
    for name in ["f", "hole"] {
        let source = at(name);
        for (from, to, landed) in [
            (text(&source), text(&at("local")), at("local")),
            (text(&source), up.clone(), root.join("up")),
            (up.clone(), text(&at("down")), at("down")),
            (stock.clone(), text(&at("stock")), at("stock")),
        ] {
            let out = succeed(farline().args(["--json", "cp", &from, &to]));
            same(&source, &landed);
            let between_farlines = to == up || from == up;
            // A copy within this host is not read back.
            let leaves = between_farlines || from == stock;
            assert_eq!(out.contains("\"verified\":true"), leaves, "{from} {to}: {out}");
            if between_farlines {
                // Three blocks and what they touch, of 96 (Z-2).
                let said: serde_json::Value = serde_json::from_str(&out).expect("one object");
                assert!(said["bytes_sent"].as_u64() < Some(6 * MIB), "holes crossed: {out}");
            }
            let (there, here) = (allocated(&landed), allocated(&source));
            // As much as the finest step at which zeros are left out may add at each edge of the
            // data.
            assert!(
                there <= here + 4 * (64 << 10),
                "{from} {to}: {there} bytes allocated of {here}"
            );
        }
    }
    // What is there already is no hole in an older file: that file is replaced, not written into.
    std::fs::write(at("local"), vec![7; 2 * MIB as usize]).expect("written");
    succeed(farline().args(["-q", "cp"]).arg(at("hole")).arg(at("local")));
    same(&at("hole"), &at("local"));
}

#[test]
fn direct_io_and_fixed_buffers_move_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    for len in [0, 5, 4096, MIB, 7 * MIB + 4097] {
        std::fs::write(&file, random(13, len as usize)).expect("written");
        let up = format!("{url}/up");
        for (from, to, landed) in [
            (text(&file), text(&dir.path().join("local")), dir.path().join("local")),
            (text(&file), up.clone(), root.join("up")),
            (up.clone(), text(&dir.path().join("down")), dir.path().join("down")),
        ] {
            succeed(farline().args([
                "--json",
                "cp",
                "--direct-io",
                "--buffer",
                "256KiB",
                "--streams",
                "3",
                &from,
                &to,
            ]));
            same(&file, &landed);
        }
    }
    let said = succeed(
        farline().args(["cp", "-v", "--buffer", "1GiB"]).arg(&file).arg(format!("{url}/again")),
    );
    assert!(said.contains("socket buffers of 1 GiB as asked"), "{said}");
    assert!(said.contains("rather than 1 GiB: net.core.wmem_max"), "{said}");
}
