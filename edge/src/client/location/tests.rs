//! Locations as people write them.

use super::*;

fn remote(text: &str) -> Remote {
    match Location::parse(OsStr::new(text)) {
        Ok(Location::Remote(remote)) => remote,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn urls_and_paths_are_told_apart() {
    assert_eq!(Location::parse(OsStr::new("./a:b/c")), Ok(Location::Local("./a:b/c".into())));
    assert_eq!(Location::parse(OsStr::new("a/b:c")), Ok(Location::Local("a/b:c".into())));
    for (text, user, host, path) in [
        ("a:b/c", None, "a", "b/c"),
        ("ann@a:/b", Some("ann"), "a", "/b"),
        ("ann@x@a:", Some("ann@x"), "a", "./"),
        ("a:~", None, "a", "./"),
        ("a:~/b", None, "a", "b"),
        ("a:..", None, "a", "../"),
        ("[fe80::1]:b:c", None, "fe80::1", "b:c"),
        ("ann@[::1]:/b@c", Some("ann"), "::1", "/b@c"),
    ] {
        let remote = remote(text);
        assert_eq!(
            (remote.transport, remote.user.as_deref(), remote.host.as_str()),
            (ControlTransport::Ssh, user, host),
            "{text}"
        );
        assert_eq!(remote.path, path.as_bytes(), "{text}");
    }
    assert_eq!(remote("ftps://a/b").transport, ControlTransport::Tls);
    assert_eq!(remote("farlines://a/?null").to_string(), "farlines://a:2811/?null");
    assert_eq!(remote("farlines://a/?null").transport, ControlTransport::Tls);
    let over_udp = remote("farlineq://a/d");
    assert_eq!((over_udp.transport, over_udp.port), (ControlTransport::OnePort, 2811));
    assert_eq!(over_udp.to_string(), "farlineq://a:2811/d");
    assert_eq!(Location::parse(OsStr::new("file:///x%20y")), Ok(Location::Local("/x y".into())));
    let plain = remote("ftp://dtn2.example.org/data/run%207");
    assert_eq!(
        (plain.host.as_str(), plain.port, &plain.path[..]),
        ("dtn2.example.org", 21, &b"/data/run 7"[..])
    );
    let full = remote("ftp://ann:s%40cret@[fe80::1]:2811");
    assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("ann"), Some("s@cret")));
    assert_eq!((full.host.as_str(), full.port, &full.path[..]), ("fe80::1", 2811, &b"/"[..]));
    assert_eq!(full.to_string(), "ftp://[fe80::1]:2811/", "a password is never printed");
}

#[test]
fn a_farline_url_has_its_own_port_and_stores_without_a_disk() {
    let plain = remote("farline://dtn2/data/a%3Fb");
    assert_eq!(
        (plain.port, plain.farline, &plain.path[..], plain.store),
        (2811, true, &b"/data/a?b"[..], None)
    );
    let null = remote("farline://dtn2:5000/?null");
    assert_eq!(
        (null.port, null.store.as_ref().map(RemoteStore::option), null.to_string().as_str()),
        (5000, Some("null".to_owned()), "farline://dtn2:5000/?null")
    );
    let memory = remote("farline://[::1]?memory=10GiB");
    assert_eq!(
        (&memory.path[..], memory.store.as_ref().map(RemoteStore::option), memory.name()),
        (&b"/"[..], Some("memory:10737418240".to_owned()), &b"memory"[..])
    );
    assert_eq!(remote("ftp://h/a?null").path, b"/a?null", "an FTP URL has no query");
    for (text, shown) in [("null:", "null:"), ("memory:1G", "memory:1073741824")] {
        match Location::parse(OsStr::new(text)) {
            Ok(Location::Store(address)) => assert_eq!(address.to_string(), shown),
            other => panic!("{text}: {other:?}"),
        }
    }
    let own = remote("farline://dtn2/run7/a?store=objects");
    let store = own.store.as_ref().map(|store| (store.option(), store.feature()));
    assert_eq!(store, Some(("objects".to_owned(), "STORE objects".to_owned())));
    assert_eq!(
        (own.name(), own.to_string().as_str()),
        (&b"a"[..], "farline://dtn2:2811/run7/a?store=objects")
    );
    assert_eq!(Location::parse(OsStr::new("-")), Ok(Location::Standard));
    for file in ["./-", "--", "null", "memory", "./null:", "memory.h5"] {
        assert_eq!(Location::parse(OsStr::new(file)), Ok(Location::Local(file.into())), "{file}");
    }
}

#[test]
fn a_wrong_url_is_one_clear_error() {
    for (text, code) in [
        ("http://x/y", ErrorCode::UnknownScheme),
        ("ftp:///x", ErrorCode::BadUrl),
        ("ftp://h:0/x", ErrorCode::BadUrl),
        ("ftp://h:99999/x", ErrorCode::BadUrl),
        ("ftp://h/%zz", ErrorCode::BadUrl),
        ("farline://h/?nul", ErrorCode::BadUrl),
        ("farline://h/?memory=much", ErrorCode::BadSize),
        ("farline://h/?store=", ErrorCode::BadUrl),
        ("farline://h/?store=a;b", ErrorCode::BadUrl),
        ("memory:much", ErrorCode::BadSize),
        ("ftp://h/a%0d%0aDELE%20b", ErrorCode::BadUrl),
        ("", ErrorCode::EmptyPath),
        (":x", ErrorCode::BadLocation),
        ("-oProxyCommand=x:y", ErrorCode::BadLocation),
        ("a:~bob/x", ErrorCode::BadLocation),
    ] {
        assert_eq!(
            Location::parse(OsStr::new(text)).map_err(|error| error.code),
            Err(code),
            "{text}"
        );
    }
}

#[test]
fn a_grids_server_over_ssh_is_a_url_of_its_own() {
    let usual = remote("sshftp://ann@dtn2/data/a?b");
    assert_eq!((usual.transport, usual.farline, usual.port), (ControlTransport::Ssh, false, 0));
    assert_eq!((usual.user.as_deref(), &usual.path[..]), (Some("ann"), &b"/data/a?b"[..]));
    assert_eq!(usual.to_string(), "sshftp://dtn2/data/a?b");
    assert_eq!(
        (usual.server(), usual.place()),
        ("dtn2".to_owned(), "sshftp://ann@dtn2".to_owned())
    );
    let at_port = remote("sshftp://[::1]:2222/x");
    assert_eq!((at_port.port, at_port.to_string().as_str()), (2222, "sshftp://[::1]:2222/x"));
    for (text, why) in [
        ("sshftp://ann:secret@dtn2/x", "ssh takes no password"),
        ("sshftp://-oProxyCommand=x/", "can be called so"),
        ("sshftp://-l@dtn2/x", "can be called so"),
    ] {
        let error = Location::parse(OsStr::new(text)).expect_err(text);
        assert_eq!(error.code, ErrorCode::BadUrl);
        assert!(error.message.contains(why), "{error}");
    }
}
