//! Modules, options, drivers, names and TLS: what a session hands to its edge, and says of it.

use super::*;

#[test]
fn modules_and_options_reach_the_edge() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("SCKS MD5 B1946AC9\r\nESTO FARLINE.TREE=\"manifest\" /dst/../d\r\n");
    let request = d.transfer();
    assert_eq!(
        request.module.as_ref().map(|m| (&*m.name, &*m.parms)),
        Some(("FARLINE.TREE", "manifest"))
    );
    assert_eq!(
        (&request.path, request.expected.as_ref().map(|e| &*e.digest)),
        (&"/d".into(), Some("b1946ac9"))
    );
    d.edge(Answer::Finished { bytes: 1 }).client("OPTS FARLINE congestion=bbr;\r\n");
    assert_eq!(d.asked(), &Ask::SetOption { name: "congestion".into(), value: "bbr".into() });
    d.edge(Answer::Done);
    assert!(d.said().ends_with("200 congestion=bbr\r\n"));
}

#[test]
fn what_a_module_found_comes_with_the_last_reply() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("ERET FARLINE.TREE=\"data\" /\r\n");
    d.transfer();
    let words = format!("226 {}", "x".repeat(1_500));
    d.edge(Answer::Words(words.clone())).edge(Answer::Finished { bytes: 1 });
    let mut reader = crate::gridftp::ReplyReader::new();
    let said = d.said();
    let mut bytes = &said.as_bytes()[said.find("226-").expect("a reply of several lines")..];
    let reply = reader.next(&mut bytes).expect("a reply").expect("a whole one");
    let middle: Vec<u8> = reply.lines[1..reply.lines.len() - 1].concat();
    assert_eq!((reply.code, String::from_utf8(middle).expect("text")), (226, words));
}

#[test]
fn names_are_listed_renamed_and_checked_on_the_control_channel() {
    let mut d = Dialogue::writable();
    d.client("OPTS MLST type;size;\r\n").said();
    let file = ListingEntry { name: "a".into(), size: Some(6), ..ListingEntry::default() };
    d.client("MLST a\r\n").edge(Answer::Entry(Box::new(file.clone())));
    assert_eq!(d.said(), "250-status of /a\r\n Type=file;Size=6; /a\r\n250 End.\r\n");
    d.client("MLSC /\r\n");
    let Ask::List { facts, .. } = *d.asked() else { panic!("{:?}", d.asked()) };
    let odd = ListingEntry { name: "b\nc".into(), ..ListingEntry::default() };
    let lines = crate::gridftp::control_listing([file.clone(), odd], facts).expect("a short list");
    d.edge(Answer::Entries(lines));
    assert_eq!(d.said(), "250-Contents of /\r\n Type=file;Size=6; a\r\n250 End.\r\n");
    d.client("STAT a\r\n").edge(Answer::Entry(Box::new(file.clone())));
    assert_eq!(
        d.said(),
        "213-status of /a\r\n -rw-r--r--   1 -        -                   6 Jan  1  1970 a\r\n213 \
         End.\r\n"
    );
    d.client("RNFR a\r\nRNTO b\r\n").edge(Answer::Entry(Box::new(file.clone())));
    assert_eq!(d.asked(), &Ask::Rename { from: "/a".into(), to: "/b".into() });
    d.edge(Answer::Done);
    assert_eq!(d.said(), "350 RNFR accepted; send RNTO.\r\n250 Renamed.\r\n");
    d.client("OPTS CKSM markers=5;\r\nCKSM md5 0 -1 a\r\n").said();
    assert!(matches!(d.asked(), Ask::Checksum { length: None, offset: 0, .. }));
    d.edge(Answer::Processed { timestamp: Timestamp::default(), bytes: 3 })
        .edge(Answer::Digest("b1946ac9".into()));
    assert_eq!(
        d.said(),
        "113-Status Marker\r\n Timestamp: 0.0\r\n Bytes Processed: 3\r\n113 End.\r\n213 \
         b1946ac9\r\n"
    );
    d.client("CWD a\r\n").edge(Answer::Entry(Box::new(file)));
    assert!(d.said().contains("c=NOT_A_DIRECTORY"));
}

#[test]
fn the_edge_is_asked_for_the_driver_where_it_has_several() {
    let net_stacks = vec!["tcp".to_owned(), "rdma".to_owned()];
    let config = ServerConfig {
        net_stacks,
        logins: Logins::Anyone(Rights::Write),
        ..ServerConfig::default()
    };
    let mut d = Dialogue::new(config);
    d.client("USER ann\r\nPASS x\r\n");
    for (said, asked) in [("rdma", "rdma"), ("default", "tcp"), ("tcp", "tcp")] {
        d.client(&format!("SITE SETNETSTACK {said}\r\n"));
        assert_eq!(d.asked(), &Ask::NetStack { name: asked.into() });
        d.edge(Answer::Done);
        assert_eq!(d.code(), "250");
    }
    d.client("SITE SETNETSTACK udt\r\n");
    assert_eq!(d.code(), "500");
}

#[test]
fn the_reply_to_an_option_says_what_it_now_is() {
    let mut d = Dialogue::new(ServerConfig {
        logins: Logins::Anyone(Rights::Write),
        ..ServerConfig::default()
    });
    d.client("USER ann\r\nPASS x\r\n");
    for (answer, said) in
        [(Answer::Done, "200 rdma=00ff"), (Answer::Value("a5".to_owned()), "200 rdma=a5")]
    {
        d.client("OPTS FARLINE rdma=00ff;\r\n");
        assert_eq!(d.asked(), &Ask::SetOption { name: "rdma".into(), value: "00ff".into() });
        d.said();
        d.edge(answer);
        assert_eq!(d.said().trim_end(), said);
    }
}

#[test]
fn under_tls_the_edge_must_encrypt_and_paths_start_at_home() {
    let config = ServerConfig {
        secure: true,
        passive_retrieve: true,
        home: Pathname::new("/home/ann"),
        logins: Logins::Anyone(Rights::Write),
        ..ServerConfig::default()
    };
    let mut d = Dialogue::new(config);
    d.client("USER ann\r\nPASS x\r\nPBSZ 0\r\nPROT P\r\n");
    assert!(matches!(d.open, Some((_, Ask::Protect { private: true }))));
    d.edge(Answer::Done);
    assert!(d.said().ends_with("200 Protection level set to P.\r\n"));
    d.listening("EPSV").client("MODE E\r\nRETR run/x\r\n");
    assert_eq!(d.transfer().path, Pathname::new("/home/ann/run/x"));
    d.edge(Answer::Finished { bytes: 1 });
    assert_eq!(d.code(), "226", "a client that opened the channels may retrieve over them");
}
