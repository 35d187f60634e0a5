//! Dialogues of real clients, as they were seen: globus-url-copy, lftp, curl.

use super::*;

#[test]
fn globus_url_copy_puts_a_file_over_parallel_channels() {
    let mut d = Dialogue::writable();
    d.client("SITE HELP\r\n");
    let help = d.said();
    assert!(
        help.starts_with("214-The following commands are recognized:\r\n    ABOR    ALLO ")
            && help.ends_with("214 End\r\n")
    );
    assert!(!help.contains("AUTH"), "what is not offered is not announced");
    d.client(
        "FEAT\r\nSITE CLIENTINFO scheme=ftp;appname=\"globus-url-copy\";\r\nTYPE I\r\nMODE E\r\n",
    );
    let said = d.said();
    for line in [
        "\r\n CKSM SHA256:10;MD5:11;\r\n",
        "\r\n PARALLEL\r\n",
        "\r\n FARLINE TREE\r\n211 End.\r\n250 OK.\r\n200 ",
    ] {
        assert!(said.contains(line), "{said}");
    }
    d.client("MKD /tmp/\r\n");
    assert_eq!(d.asked(), &Ask::MakeDirectory { path: "/tmp".into() });
    d.edge(Answer::Failed(Error::new(Fault::You, ErrorCode::PathExists, "/tmp is there already.")));
    assert!(d.said().starts_with("553-GlobusError: v=1 c=PATH_EXISTS\r\n"));
    d.client("MKD /tmp/x/\r\n").edge(Answer::Done);
    assert_eq!(d.said(), "257 \"/tmp/x\" created.\r\n");

    d.client("PASV\r\n");
    assert!(matches!(d.asked(), Ask::Passive { striped: false, .. }));
    d.edge(Answer::Passive(vec!["127.0.0.1:35077".parse().expect("an address")]));
    assert_eq!(d.said(), "227 Entering Passive Mode (127,0,0,1,137,5)\r\n");
    d.client("SITE STORBUFSIZE 1000000\r\nALLO 3000000\r\nSTOR /tmp/x/big\r\n");
    assert_eq!(d.said(), "250 OK.\r\n200 ALLO command successful.\r\n");
    let request = d.transfer();
    assert_eq!(
        (request.action, request.mode, request.size),
        (Action::Store, Mode::Extended, Some(3_000_000))
    );
    assert_eq!(
        (&request.path, request.buffer_size.map(|b| b.0)),
        (&"/tmp/x/big".into(), Some(1_000_000))
    );
    assert_eq!(
        (request.perf_every, request.ranges_every),
        (Span::from_secs(5), Span::from_secs(5))
    );

    d.edge(Answer::Started { reused: false });
    d.edge(Answer::Perf(Perf {
        bytes: 7,
        stripes: 1,
        timestamp: Timestamp::from_seconds(9),
        ..Perf::default()
    }));
    let mut held = ByteRanges::new();
    held.insert(0..3_000_000);
    d.edge(Answer::Ranges(held))
        .edge(Answer::Remark("FARLINE channels=8;".into()))
        .edge(Answer::Finished { bytes: 3_000_000 });
    assert_eq!(
        d.said(),
        "150 Beginning transfer.\r\n112-Perf Marker\r\n Timestamp: 9.0\r\n Stripe Index: 0\r\n \
         Stripe Bytes Transferred: 7\r\n Total Stripe Count: 1\r\n112 End.\r\n111 Range Marker \
         0-3000000\r\n\
         114 FARLINE channels=8;\r\n226 Transfer complete.\r\n"
    );
    d.client("STOR /tmp/x/next\r\n");
    assert_eq!(d.transfer().size, None, "ALLO is of one file");
    d.edge(Answer::Started { reused: true });
    assert_eq!(d.said(), "125 Beginning transfer; reusing existing data connection.\r\n");
}

#[test]
fn globus_url_copy_gets_a_file_over_four_channels_of_the_server() {
    let mut d = Dialogue::writable();
    d.client("TYPE I\r\nMODE E\r\nOPTS RETR Parallelism=4,4,4;\r\n").said();
    d.client("PORT 127,0,0,1,164,165\r\n");
    assert_eq!(
        d.asked(),
        &Ask::Active { addresses: vec!["127.0.0.1:42149".parse().expect("an address")] }
    );
    d.edge(Answer::Done).client("ERET P 100 1000 big\r\n");
    let request = d.transfer();
    assert_eq!(
        (request.parallelism, request.part),
        (4, Some(FilePart { offset: 100, length: Some(1000) }))
    );
    assert_eq!((request.action, &request.path), (Action::Retrieve, &"/big".into()));
    d.edge(not_found());
    let said = d.said();
    assert!(
        said.contains("550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n")
            && said.ends_with("550 No such file: /x\r\n"),
        "{said}"
    );
    d.client("SPOR 127,0,0,1,0,1 |2|::1|2|\r\n").edge(Answer::Done);
    assert_eq!(d.code(), "200");
}

#[test]
fn lftp_and_curl_list_and_get() {
    let mut d = Dialogue::new(ServerConfig::default());
    d.client("FEAT\r\nLANG\r\nOPTS UTF8 ON\r\n");
    assert!(
        d.said()
            .ends_with("200 Language is EN.\r\n200 Pathnames are bytes; UTF-8 is understood.\r\n")
    );
    d.client("USER anonymous\r\nPASS lftp@\r\nOPTS MLST Type;Size;\r\nPWD\r\nCWD tmp\r\n")
        .edge(directory());
    assert!(d.said().ends_with(
        "200 MLST OPTS Type;Size;\r\n257 \"/\" is the current \
            directory.\r\n250 CWD command successful.\r\n"
    ));
    d.listening("PASV").client("LIST -a\r\n");
    assert_eq!(
        (d.transfer().action, &d.transfer().path),
        (Action::List(ListFormat::Long), &"/tmp".into())
    );
    d.edge(Answer::Started { reused: false })
        .edge(Answer::Perf(Perf::default()))
        .edge(Answer::Finished { bytes: 1 });
    assert_eq!(
        d.said(),
        "150 Beginning transfer.\r\n226 Transfer complete.\r\n",
        "no markers in MODE S"
    );
    d.client("MLSD\r\n");
    assert_eq!(d.code(), "425", "in MODE S a listener serves once");
    d.client("SIZE a.txt\r\n")
        .edge(Answer::Entry(Box::new(ListingEntry { size: Some(6), ..ListingEntry::default() })));
    assert_eq!(d.said(), "213 6\r\n");
    d.listening("EPSV").client("REST 3\r\nRETR a.txt\r\n");
    assert_eq!(d.said(), "350 Restart marker accepted; send STOR or RETR to go on from it.\r\n");
    assert_eq!(d.transfer().held.to_string(), "0-3");
    d.edge(Answer::Finished { bytes: 3 });
    assert_eq!(d.said(), "150 Beginning transfer.\r\n226 Transfer complete.\r\n");
}

#[test]
fn a_thousand_stores_in_one_segment_are_answered_in_order() {
    let mut d = Dialogue::writable();
    d.client("MODE E\r\n").listening("PASV");
    let lines: String = (0..1000).map(|i| format!("STOR /f{i}\r\n")).collect();
    d.client(&lines);
    for i in 0..1000 {
        assert_eq!(d.transfer().path, Pathname::from(&*format!("/f{i}")));
        d.edge(Answer::Started { reused: i > 0 });
        if i == 7 {
            d.edge(Answer::Failed(Error::new(Fault::Here, ErrorCode::NoSpace, "Disk full.")));
            assert_eq!(d.code(), "552");
        } else {
            d.edge(Answer::Finished { bytes: 1 });
            assert_eq!(d.code(), "226");
        }
    }
    assert!(d.open.is_none());
}

#[test]
fn abort_ends_the_transfer_and_those_queued_before_it() {
    let mut d = Dialogue::writable();
    d.client("MODE E\r\n").listening("PASV").others.clear();
    d.client("STOR /a\r\nSTOR /b\r\nNOOP\r\n").edge(Answer::Started { reused: false }).said();
    d.client("\u{0}STAT\r\n").said();
    d.client("ABOR\r\nNOOP\r\n");
    assert!(matches!(d.others[..], [Output::Abort { .. }]));
    d.client("ABOR\r\n");
    assert_eq!(d.others.len(), 1, "asked to abort once");
    d.edge(Answer::Failed(Error::new(Fault::Between, ErrorCode::DataConnection, "closed")));
    let said = d.said();
    let codes: Vec<&str> =
        said.lines().filter(|line| line.as_bytes()[3] == b' ').map(|line| &line[..3]).collect();
    assert_eq!(codes, ["426", "426", "200", "500", "226", "200", "226"]);
    d.client("STOR /c\r\n");
    assert_eq!(d.transfer().path, "/c".into(), "the next transfer is unharmed");
}

#[test]
fn a_limit_is_heeded_while_a_transfer_runs() {
    let mut d = Dialogue::writable();
    let option = |value: &str| ("limit".to_owned(), value.to_owned());
    d.client("OPTS FARLINE limit=5;\r\n").edge(Answer::Done);
    assert!(d.others.is_empty(), "with no transfer it is asked for once: {:?}", d.others);
    d.client("MODE E\r\n").listening("PASV").others.clear();
    d.client("STOR /a\r\n").edge(Answer::Started { reused: false }).said();
    d.client("OPTS FARLINE limit=7;\r\nOPTS FARLINE order=any;\r\n");
    let (name, value) = option("7");
    assert_eq!(d.others, [Output::OptionAtOnce { name, value }]);
    assert_eq!(d.said(), "", "its reply comes in its turn");
    d.edge(Answer::Finished { bytes: 1 });
    assert_eq!(d.code(), "226");
    let (name, value) = option("7");
    assert_eq!(d.asked(), &Ask::SetOption { name, value });
    d.edge(Answer::Done);
    assert_eq!(d.code(), "200");
    assert_eq!(d.others.len(), 1, "{:?}", d.others);
}

#[test]
fn status_is_told_while_a_transfer_runs() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("RETR /a\r\n").edge(Answer::Started { reused: false }).said();
    d.client("STAT\r\n");
    assert!(d.said().contains("A transfer runs."));
}
