//! Servers of attributes below authorities whose lists of what they took back are there, or say
//! nothing.

use super::*;
use openssl::x509::X509CrlBuilder;

/// A list of `by` that takes nobody back, good until so many days from now.
fn list(by: &TestCredential, until: i64) -> Vec<u8> {
    let mut builder = X509CrlBuilder::new().expect("memory");
    builder.set_issuer_name(by.chain[0].subject_name()).expect("set");
    builder.set_last_update(&days(-3)).expect("set");
    builder.set_next_update(&days(until)).expect("set");
    // What every list has: whose key signed it, here left open, and its number.
    for (oid, value) in [("2.5.29.35", &[0x30, 0][..]), ("2.5.29.20", &[2, 1, 1][..])] {
        let oid = Asn1Object::from_str(oid).expect("an OID");
        let value = Asn1OctetString::new_from_bytes(value).expect("memory");
        let extension = X509Extension::new_from_der(&oid, false, &value).expect("an extension");
        builder.append_extension(extension).expect("set");
    }
    builder.sign(&by.key, MessageDigest::sha256()).expect("signed");
    builder.build().and_then(|list| list.to_pem()).expect("PEM")
}

/// The file of `by` in the grid's folder of authorities that ends so.
fn file_of(grid: &Grid, by: &TestCredential, end: &str) -> PathBuf {
    let name = format!("certificates/{:08x}.{end}", by.chain[0].subject_name_hash());
    grid.folder.path().join(name)
}

/// An authority that the grid's own signed.
fn authority_below(grid: &Grid) -> TestCredential {
    let (secret, above) = (key(), &grid.authority);
    let wanted = Wanted {
        subject: name(None, &[("O", "Grid"), ("CN", "Sub CA")]),
        is_authority: true,
        proxy: None,
        from: -2,
        until: 2,
    };
    let by = (above.chain[0].subject_name(), &above.key);
    let own = certificate(&wanted, &public(&secret), by);
    let below = TestCredential { chain: vec![own], key: secret };
    let policy = "access_id_CA X509 '/O=Grid/CN=Sub CA'\npos_rights globus CA:sign\n\
                  cond_subjects globus '\"/O=Grid/*\"'\n";
    fs::write(file_of(grid, &below, "signing_policy"), policy).expect("written");
    below
}

#[test]
fn a_missing_list_is_no_list_of_another_authority() {
    let grid = Grid::new(true);
    let below = authority_below(&grid);
    let server = signed(&below, &[("O", "Grid"), ("CN", "voms")], 2);
    let vouched = || {
        let found = grid.gsi.authorities.vouched_for(&server.chain[0], &below.chain);
        found.map(|chain| chain.len())
    };
    let [lower, upper] = [&below, &grid.authority].map(|by| file_of(&grid, by, "r0"));
    assert_eq!(vouched(), Ok(3), "none has a list");
    fs::write(&upper, list(&grid.authority, 2)).expect("written");
    assert_eq!(vouched(), Ok(3), "the upper one has");
    fs::write(&lower, list(&below, 2)).expect("written");
    assert_eq!(vouched(), Ok(3), "both have");
    fs::remove_file(&upper).expect("removed");
    assert_eq!(vouched(), Ok(3), "the lower one has");
    // One that has no list saves nobody whom the other's keeps out.
    fs::write(&lower, list(&below, -1)).expect("written");
    assert_eq!(vouched(), Err("/O=Grid/CN=voms: CRL has expired".to_owned()));
    fs::remove_file(&lower).expect("removed");
    fs::write(&upper, list(&grid.authority, -1)).expect("written");
    assert_eq!(vouched(), Err("/O=Grid/CN=Sub CA: CRL has expired".to_owned()));
}

#[test]
fn a_list_that_says_nothing_is_refused_with_the_true_reason() {
    let grid = Grid::new(true);
    let (server, below) = (grid.user("voms"), authority_below(&grid));
    let file = file_of(&grid, &grid.authority, "r0");
    let refused = |why: &str| {
        let said = grid.gsi.authorities.vouched_for(&server.chain[0], &[]).expect_err(why);
        assert!(said.starts_with("/O=Grid/CN=voms: ") && said.contains(why), "{said}, not {why}");
    };
    // Of the same name, and another key.
    let namesake = Grid::new(true).authority;
    for (bytes, why) in [
        (list(&grid.authority, -1), "CRL has expired"),
        (list(&below, 2), "it is of another authority"),
        (list(&namesake, 2), "CRL signature failure"),
        (b"garbage".to_vec(), "it is no list in PEM"),
        (Vec::new(), "it is no list in PEM"),
    ] {
        fs::write(&file, bytes).expect("written");
        refused(why);
    }
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder");
    refused("Is a directory");
    fs::remove_dir(&file).expect("removed");
    std::os::unix::fs::symlink("nowhere", &file).expect("a link");
    refused("it is a link to a file that is missing");
    fs::remove_file(&file).expect("removed");
    grid.gsi.authorities.vouched_for(&server.chain[0], &[]).expect("it has no list");
}
