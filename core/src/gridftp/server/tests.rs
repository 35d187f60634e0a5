//! Dialogues of real clients with a server session, and what no client should do.

use super::*;
use crate::gridftp::{ListFormat, ListingEntry, ListingKind, Mode, Pathname, Perf, Timestamp};
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Span};
use proptest::prelude::*;

/// A session whose edge answers by script.
struct Dialogue {
    session: ServerSession,
    now: Time,
    /// The open ask.
    open: Option<(u64, Ask)>,
    said: String,
    others: Vec<Output>,
    has_room: bool,
}

impl Dialogue {
    fn new(config: ServerConfig) -> Dialogue {
        let session = ServerSession::new(config, Time::ZERO);
        let mut dialogue = Dialogue {
            session,
            now: Time::ZERO,
            open: None,
            said: String::new(),
            others: Vec::new(),
            has_room: true,
        };
        dialogue.poll();
        assert_eq!(dialogue.said(), "220 Farline GridFTP server ready.\r\n");
        dialogue
    }

    fn writable() -> Dialogue {
        let mut dialogue = Dialogue::new(ServerConfig {
            logins: Logins::Anonymous(Rights::Write),
            checksums: vec!["SHA256".into(), "MD5".into()],
            modules: vec!["FARLINE.TREE".into()],
            features: vec!["FARLINE TREE".into()],
            ..ServerConfig::default()
        });
        dialogue.client("USER anonymous\r\nPASS x@\r\n");
        assert_eq!(
            dialogue.said(),
            "331 Password required for anonymous.\r\n230 User logged in.\r\n"
        );
        dialogue
    }

    fn client(&mut self, text: &str) -> &mut Dialogue {
        self.session.handle(self.now, Input::Received(text.as_bytes()));
        self.poll();
        self
    }

    fn edge(&mut self, answer: Answer) -> &mut Dialogue {
        let id = self.open.as_ref().expect("an open ask").0;
        let last = !matches!(
            answer,
            Answer::Started { .. }
                | Answer::Ranges(_)
                | Answer::Perf(_)
                | Answer::Processed { .. }
                | Answer::Remark(_)
                | Answer::Words(_)
        );
        if last {
            self.open = None;
        }
        self.session.handle(self.now, Input::Answer { id, answer });
        self.poll();
        self
    }

    fn poll(&mut self) {
        loop {
            match self.session.poll(self.now) {
                Output::Wait(_) => return,
                Output::Send(bytes) => {
                    self.said.push_str(&String::from_utf8(bytes).expect("ASCII"))
                }
                Output::Ask { id, ask: Ask::Admit } if self.has_room => {
                    let answer = Answer::Done;
                    self.session.handle(self.now, Input::Answer { id, answer });
                }
                Output::Ask { id, ask } => {
                    assert!(self.open.replace((id, ask)).is_none(), "one ask at a time")
                }
                other => self.others.push(other),
            }
        }
    }

    fn said(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    fn code(&mut self) -> String {
        let said = self.said();
        said.lines().last().unwrap_or_default().chars().take(3).collect()
    }

    /// The code of the reply to one command that asks nothing of the edge.
    fn told(&mut self, line: &str) -> String {
        self.client(&format!("{line}\r\n"));
        assert!(self.open.is_none(), "{line}: {:?}", self.open);
        self.code()
    }

    fn asked(&self) -> &Ask {
        &self.open.as_ref().expect("an open ask").1
    }

    fn transfer(&self) -> &TransferRequest {
        match self.asked() {
            Ask::Transfer(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn listening(&mut self, command: &str) -> &mut Dialogue {
        self.client(&format!("{command}\r\n"))
            .edge(Answer::Passive(vec!["127.0.0.1:35077".parse().expect("an address")]));
        assert_eq!(self.code(), if command == "PASV" { "227" } else { "229" });
        self
    }
}

fn not_found() -> Answer {
    Answer::Failed(Error::new(Fault::You, ErrorCode::PathNotFound, "No such file: /x"))
}

fn directory() -> Answer {
    Answer::Entry(Box::new(ListingEntry {
        kind: ListingKind::Directory,
        size: Some(4096),
        ..ListingEntry::default()
    }))
}

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
        &Ask::Act { addresses: vec!["127.0.0.1:42149".parse().expect("an address")] }
    );
    d.edge(Answer::Done).client("ERET P 100 1000 big\r\n");
    let request = d.transfer();
    assert_eq!(
        (request.parallelism, request.part),
        (4, Some(Part { offset: 100, length: Some(1000) }))
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
fn status_is_told_while_a_transfer_runs() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("RETR /a\r\n").edge(Answer::Started { reused: false }).said();
    d.client("STAT\r\n");
    assert!(d.said().contains("A transfer runs."));
}

#[test]
fn nothing_before_login_and_no_write_without_the_right() {
    let mut d = Dialogue::new(ServerConfig::default());
    for line in [
        "PWD",
        "MKD /x",
        "STOR /x",
        "PASV",
        "SITE CHMOD 644 /x",
        "OPTS RETR Parallelism=2;",
        "SIZE /x",
    ] {
        assert_eq!(d.told(line), "530", "{line}");
    }
    assert_eq!(d.told("PASS x"), "503");
    assert_eq!(d.told("USER bob"), "530", "no password is asked in the clear");
    d.client("USER ftp\r\nPASS x\r\n").said();
    d.listening("PASV");
    for line in [
        "MKD /x",
        "STOR /x",
        "APPE /x",
        "ESTO A 0 /x",
        "DELE /x",
        "RMD /x",
        "RNFR /x",
        "SITE CHMOD 644 /x",
        "MFMT 20200101000000 /x",
    ] {
        d.client(&format!("{line}\r\n"));
        assert!(d.open.is_none(), "{line}");
        let said = d.said();
        assert!(
            said.contains("c=PERMISSION_DENIED")
                && said.ends_with("550 This server lets you read, not write.\r\n"),
            "{said}"
        );
    }
}

#[test]
fn asked_logins_are_the_edges_choice_and_guessing_ends() {
    let mut d = Dialogue::new(ServerConfig {
        logins: Logins::Asked { anonymous: None },
        secure: true,
        ..ServerConfig::default()
    });
    for _ in 0..4 {
        d.client("USER bob\r\nPASS guess\r\n");
        assert_eq!(d.asked(), &Ask::Login { user: b"bob".to_vec(), password: b"guess".to_vec() });
        d.edge(Answer::Failed(Error::new(
            Fault::Refused,
            ErrorCode::LoginRefused,
            "wrong password",
        )));
        assert_eq!(d.code(), "530");
    }
    d.client("USER bob\r\nPASS right\r\n").edge(Answer::LoggedIn(Rights::Write));
    assert_eq!(d.code(), "230");
    let mut d = Dialogue::new(ServerConfig::default());
    (0..5).for_each(|_| _ = d.client("USER bob\r\n"));
    assert!(d.said().contains("421 Too many failed logins"));
    assert_eq!(d.others, [Output::Close]);
}

#[test]
fn in_the_clear_nobody_is_asked_for_a_password() {
    let config = |anonymous| ServerConfig {
        logins: Logins::Asked { anonymous },
        tls: true,
        ..ServerConfig::default()
    };
    let mut d = Dialogue::new(config(None));
    d.said();
    for user in ["bob", "anonymous"] {
        assert_eq!(d.told(&format!("USER {user}")), "530");
        assert_eq!(d.told("PASS secret"), "503");
    }
    let mut d = Dialogue::new(config(Some(Rights::Read)));
    d.said();
    assert_eq!(d.told("USER bob"), "530");
    assert_eq!(d.told("USER anonymous"), "331");
    d.client("PASS x\r\n");
    assert_eq!(d.code(), "230", "the edge is asked for room alone");
    // Over TLS it is asked about everybody: a certificate may say more than the name.
    d.client("AUTH TLS\r\n");
    assert_eq!(d.code(), "234");
    d.client("USER anonymous\r\nPASS x\r\n");
    let asked = Ask::Login { user: b"anonymous".to_vec(), password: b"x".to_vec() };
    assert_eq!(d.asked(), &asked);
}

#[test]
fn mode_e_wants_the_sender_to_connect() {
    let mut d = Dialogue::writable();
    d.client("MODE E\r\n").said();
    assert_eq!(d.told("RETR /x"), "425");
    d.listening("SPAS");
    assert_eq!(d.told("RETR /x"), "503");
    assert_eq!(d.told("MLSD"), "503");
    d.client("PORT 127,0,0,1,0,9\r\n").edge(Answer::Done).said();
    assert_eq!(d.told("STOR /x"), "503");
}

#[test]
fn a_refused_restart_never_lets_the_transfer_begin_anew() {
    let mut d = Dialogue::writable();
    d.client("MODE E\r\n").listening("PASV");
    let long = format!("REST {}\r\nSTOR /x\r\n", "0-1,".repeat(3000));
    for lines in ["REST 9-1\r\nSTOR /x\r\n", &long] {
        d.client(lines);
        assert!(
            d.open.is_none()
                && d.said().ends_with("503 Not begun: the REST before was refused.\r\n")
        );
    }
    d.client("REST 0-10,20-30\r\nESTO A 5 /x\r\n");
    assert_eq!(
        (d.transfer().held.to_string(), d.transfer().part),
        ("0-10,20-30".into(), Some(Part { offset: 5, length: None }))
    );
    d.edge(Answer::Finished { bytes: 1 }).said();
    d.client("STOR /x\r\n");
    assert!(d.transfer().held.is_empty(), "REST is of one transfer");
    d.edge(Answer::Finished { bytes: 1 }).client("MODE S\r\n").listening("PASV").said();
    d.client("REST 0-10,20-30\r\n").said();
    assert_eq!(d.told("STOR /x"), "503");
}

#[test]
fn what_is_not_offered_says_so() {
    let mut d = Dialogue::writable();
    d.listening("PASV");
    for (line, code) in [
        ("NOPE", "500"),
        ("MODE Z", "504"),
        ("TYPE E", "504"),
        ("STRU R", "504"),
        ("DCAU A", "504"),
        ("DCAU N", "200"),
        ("PROT P", "503"),
        ("PROT S", "536"),
        ("PROT C", "200"),
        ("PBSZ 1048576", "200"),
        ("AUTH GSSAPI", "504"),
        ("CKSM CRC 0 -1 /x", "504"),
        ("SCKS CRC 00", "504"),
        ("ESTO OTHER=\"a\" /x", "504"),
        ("OPTS PASV AllowDelayed=1;", "504"),
        ("OPTS RETR Parallelism=65,65,65;", "501"),
        ("SITE SETNETSTACK udt", "500"),
        ("SITE SETNETSTACK default", "250"),
        ("SITE WHAT", "500"),
        ("RNTO /x", "503"),
        ("HELP RETR", "214"),
        ("LANG FR", "504"),
        ("EPSV ALL", "200"),
        ("PASV", "503"),
        ("PORT 1,2,3,4,5,6", "503"),
    ] {
        assert_eq!(d.told(line), code, "{line}");
    }
}

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
    d.client("MLSC /\r\n").edge(Answer::Entries(vec![
        file.clone(),
        ListingEntry { name: "b\nc".into(), ..ListingEntry::default() },
    ]));
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
fn an_idle_client_is_sent_away_but_not_one_that_transfers() {
    let mut d = Dialogue::writable();
    let idle = ServerConfig::default().idle;
    assert_eq!(d.session.poll(d.now), Output::Wait(Some(Time::ZERO + idle)));
    d.listening("PASV").client("RETR /a\r\n");
    assert_eq!(d.session.poll(d.now + idle), Output::Wait(None));
    d.edge(Answer::Finished { bytes: 1 }).said();
    d.now += idle;
    d.poll();
    assert!(d.said().starts_with("421 Idle for 900 s"));
    assert_eq!(d.others, [Output::Close]);
}

#[test]
fn a_client_that_vanishes_aborts_its_transfer() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("RETR /a\r\n");
    d.session.handle(d.now, Input::Closed);
    d.poll();
    assert!(matches!(d.others[..], [Output::Abort { .. }, Output::Close]));
    d.edge(Answer::Finished { bytes: 1 });
    assert_eq!(d.said(), "");
}

#[test]
fn quit_waits_for_the_transfer() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("RETR /a\r\nQUIT\r\n");
    assert!(d.others.is_empty());
    d.edge(Answer::Finished { bytes: 1 });
    assert!(d.said().ends_with("226 Transfer complete.\r\n221 Goodbye.\r\n"));
    assert_eq!(d.others, [Output::Close]);
}

#[test]
fn plain_text_behind_auth_tls_is_thrown_away() {
    let mut d = Dialogue::new(ServerConfig {
        tls: true,
        logins: Logins::Anyone(Rights::Write),
        ..ServerConfig::default()
    });
    d.client("AUTH TLS\r\nUSER evil\r\nPASS x\r\nDELE");
    assert_eq!(d.said(), "234 Proceed with the TLS handshake.\r\n");
    assert_eq!(d.others, [Output::StartTls]);
    assert_eq!(d.told(" /x"), "500", "no half line is left over");
}

#[test]
fn plain_text_that_waits_with_auth_behind_a_transfer_is_dropped() {
    let mut d = Dialogue::new(ServerConfig {
        tls: true,
        logins: Logins::Anonymous(Rights::Write),
        ..ServerConfig::default()
    });
    d.client("USER anonymous\r\nPASS x\r\nCWD /evil\r\n");
    d.edge(directory());
    d.client("REST 7\r\n").listening("PASV").client("RETR /a\r\nAUTH TLS\r\n");
    d.client("USER anonymous\r\nPASS x\r\n").client("MKD /planted\r\nDE");
    d.said();
    d.edge(Answer::Finished { bytes: 1 });
    assert!(d.said().ends_with("234 Proceed with the TLS handshake.\r\n"));
    assert_eq!(d.others, [Output::StartTls]);
    assert!(d.open.is_none(), "nothing of what came in the clear is done");
    // Under TLS the session is as it was at its beginning.
    assert_eq!(d.told("PWD"), "530");
    d.client("USER anonymous\r\nPASS x\r\nPWD\r\n");
    assert!(d.said().ends_with("257 \"/\" is the current directory.\r\n"));
    assert_eq!(d.told("RETR /a"), "425", "no data channel is left over");
}

#[test]
fn a_client_that_does_not_log_in_is_sent_away_in_time() {
    let mut d = Dialogue::new(ServerConfig::default());
    let within = ServerConfig::default().login_within;
    // One byte, or one command, now and then does not make the time longer.
    for _ in 0..9 {
        d.now += Span::from_secs(1);
        d.client("NOOP\r\nN").client("OOP\r\n");
    }
    assert_eq!(d.session.poll(d.now), Output::Wait(Some(Time::ZERO + within)));
    d.said();
    d.now += Span::from_secs(1);
    d.poll();
    assert!(d.said().starts_with("421 Not logged in within 10.0 s"));
    assert_eq!(d.others, [Output::Close]);
    // Who is let in, and begins another login later, has that time anew.
    let mut d = Dialogue::writable();
    d.now += Span::from_secs(60);
    d.client("USER anonymous\r\n");
    assert_eq!(d.session.poll(d.now), Output::Wait(Some(d.now + within)));
}

#[test]
fn bytes_without_a_line_do_not_keep_an_idle_session() {
    let mut d = Dialogue::writable();
    let idle = ServerConfig::default().idle;
    d.now += Span::from_secs(600);
    d.client("N");
    assert_eq!(d.session.poll(d.now), Output::Wait(Some(Time::ZERO + idle)));
}

#[test]
fn a_session_for_which_there_is_no_room_ends_with_a_word() {
    let mut d = Dialogue::new(ServerConfig::default());
    d.has_room = false;
    d.client("USER anonymous\r\nPASS x\r\nSTAT\r\n");
    d.said();
    let full = Error::new(Fault::Refused, ErrorCode::ServerClosing, "Too many sessions.");
    d.edge(Answer::Failed(full));
    assert_eq!(d.said(), "421 Too many sessions.\r\n");
    assert_eq!(d.others, [Output::Close]);
    // The edge may also end a session later.
    let mut d = Dialogue::writable();
    d.session.handle(d.now, Input::Expelled("This server ends."));
    d.poll();
    assert_eq!(d.said(), "421 This server ends.\r\n");
    assert_eq!(d.others, [Output::Close]);
}

#[test]
fn a_refused_transfer_in_mode_s_leaves_no_data_connection() {
    let mut d = Dialogue::new(ServerConfig::default());
    d.client("USER anonymous\r\nPASS x\r\n").listening("PASV");
    assert_eq!(d.told("STOR /a"), "550");
    assert_eq!(d.others, [Output::CloseData]);
    assert_eq!(d.told("RETR /a"), "425");
}

#[test]
fn a_flood_of_commands_is_held_back_and_then_ended() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("RETR /a\r\n");
    let flood = "NOOP\r\n".repeat(2_000);
    assert!(d.session.wants_input());
    d.client(&flood).client(&flood);
    assert!(!d.session.wants_input());
    (0..20).for_each(|_| _ = d.client(&flood));
    assert!(d.said().contains("421 Too many commands"));
    assert!(d.others.contains(&Output::Close));
}

#[test]
fn a_line_that_is_too_long_gets_500_and_the_session_goes_on() {
    let mut d = Dialogue::writable();
    d.client(&format!("RETR {}\r\nNOOP\r\n", "x".repeat(9000)));
    assert_eq!(
        d.said(),
        "500 A command line has at most 8192 bytes.\r\n200 NOOP command successful.\r\n"
    );
}

proptest! {
    #[test]
    fn no_bytes_and_no_answers_break_a_session(
        chunks in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                (prop::sample::select(crate::gridftp::VERBS.to_vec()), "[ -~]{0,20}")
                    .prop_map(|(verb, rest)| format!("{} {rest}\r\n", verb.name).into_bytes()),
            ],
            0..40,
        ),
        answers in prop::collection::vec(0usize..9, 40),
        logged_in in any::<bool>(),
    ) {
        let mut session = ServerSession::new(
            ServerConfig { logins: Logins::Anyone(Rights::Write), ..ServerConfig::default() }, Time::ZERO);
        if logged_in {
            session.handle(Time::ZERO, Input::Received(b"USER a\r\nPASS b\r\n"));
        }
        for (chunk, answer) in chunks.iter().zip(answers) {
            session.handle(Time::ZERO, Input::Received(chunk));
            let mut polls = 0;
            loop {
                polls += 1;
                prop_assert!(polls < 1000, "polls to no end");
                match session.poll(Time::ZERO) {
                    Output::Wait(_) => break,
                    Output::Ask { id, .. } => {
                        let answer = [
                            Answer::Done, not_found(), directory(), Answer::Finished { bytes: 0 }, Answer::Started { reused: true },
                            Answer::Passive(Vec::new()), Answer::Digest("00".into()), Answer::Entries(Vec::new()),
                            Answer::LoggedIn(Rights::Read),
                        ][answer].clone();
                        session.handle(Time::ZERO, Input::Answer { id, answer });
                    }
                    _ => {}
                }
            }
        }
    }
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
