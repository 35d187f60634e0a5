//! Dialogues of a client session with real servers' words, and what no server should do.

use super::*;
use crate::gridftp::{Command, ListingKind, Mode, Module, Pathname};
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Span};
use proptest::prelude::*;

const GLOBUS_FEAT: &str =
    "211-Extensions supported\r\n MLSC\r\n MLST Type*;Size*;\r\n PARALLEL\r\n SPAS\r\n211 End.\r\n";

struct Dialogue {
    session: ClientSession,
    now: Time,
    sent: String,
    events: Vec<(u64, Event)>,
    closed: bool,
}

impl Dialogue {
    fn new(config: ClientConfig) -> Dialogue {
        let session = ClientSession::new(config, Time::ZERO);
        Dialogue {
            session,
            now: Time::ZERO,
            sent: String::new(),
            events: Vec::new(),
            closed: false,
        }
    }

    /// Logged in to a server that says `features`.
    fn with(features: &str) -> Dialogue {
        let mut d = Dialogue::new(ClientConfig {
            host: "10.0.0.1".parse().ok(),
            ..ClientConfig::default()
        });
        d.want(1, Request::Login { user: "anonymous".into(), password: "me@".into() });
        assert_eq!(d.sent(), "", "the greeting comes first");
        d.server("220 ready\r\n")
            .server("331 Password required.\r\n")
            .server("230 in\r\n")
            .server(features)
            .server("200 Type set.\r\n");
        assert_eq!(d.sent(), "USER anonymous\r\nPASS me@\r\nFEAT\r\nTYPE I\r\n");
        assert!(matches!(d.events()[..], [(1, Event::Ready(_)), (1, Event::Done(_))]));
        d
    }

    fn farline() -> Dialogue {
        Dialogue::with(
            "211-Extensions\r\n FARLINE TREE\r\n PARALLEL\r\n MLST Type*;\r\n211 End\r\n",
        )
    }

    fn want(&mut self, id: u64, request: Request) -> &mut Dialogue {
        self.session.handle(self.now, Input::Request { id, request });
        self.poll()
    }

    fn server(&mut self, text: &str) -> &mut Dialogue {
        self.session.handle(self.now, Input::Received(text.as_bytes()));
        self.poll()
    }

    fn poll(&mut self) -> &mut Dialogue {
        loop {
            match self.session.poll(self.now) {
                Output::Wait(_) => return self,
                Output::Send(bytes) => {
                    self.sent.push_str(&String::from_utf8(bytes).expect("ASCII"))
                }
                Output::Event { id, event } => self.events.push((id, event)),
                Output::Close => self.closed = true,
            }
        }
    }

    fn sent(&mut self) -> String {
        std::mem::take(&mut self.sent)
    }

    fn events(&mut self) -> Vec<(u64, Event)> {
        std::mem::take(&mut self.events)
    }

    fn failure(&mut self, of: u64) -> Error {
        match self.events().pop() {
            Some((id, Event::Failed(error))) if id == of => error,
            other => panic!("{other:?}"),
        }
    }
}

fn store(path: &str) -> Request {
    Request::Transfer(Transfer::new(TransferKind::Store, path.into()))
}

fn active() -> Request {
    Request::Active {
        mode: Mode::Extended,
        addresses: vec!["10.0.0.2:258".parse().expect("an address")],
    }
}

fn mkdir(path: &str) -> Request {
    Request::Exec(Command::MakeDirectory(path.into()))
}

#[test]
fn a_globus_server_gets_commands_together_and_transfers_alone() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    assert_eq!(d.session.pipelining(), Pipelining::Commands);
    d.want(2, mkdir("/x"))
        .want(3, mkdir("/x/y"))
        .want(6, active())
        .want(4, store("/x/y/a"))
        .want(5, store("/x/y/b"));
    assert_eq!(d.sent(), "MKD /x\r\nMKD /x/y\r\n");
    d.server(
        "257 \"/x\" created.\r\n553-GlobusError: v=1 c=PATH_EXISTS\r\n553-GridFTP-Reason: System \
         error in mkdir\r\n553 End.\r\n",
    );
    assert!(
        matches!(&d.events()[..], [(2, Event::Done(_)), (3, Event::Failed(error))] if error.code == ErrorCode::PathExists)
    );
    assert_eq!(d.sent(), "MODE E\r\n");
    d.server("200 Mode set to E.\r\n");
    assert_eq!(d.sent(), "PORT 10,0,0,2,1,2\r\n", "STOR waits until both are known to hold");
    d.server("200 PORT Command successful.\r\n");
    assert_eq!((d.sent(), d.events().len()), ("STOR /x/y/a\r\n".into(), 1));
    d.server(
        "150 Beginning transfer.\r\n112-Perf Marker\r\n Timestamp: 1.0\r\n Stripe Index: 0\r\n \
         Stripe Bytes Transferred: 5\r\n",
    );
    d.server(
        " Total Stripe Count: 1\r\n112 End.\r\n111 Range Marker 0-5\r\n114 FARLINE channels=8;\r\n",
    );
    assert!(
        matches!(&d.events()[..], [(4, Event::Started { reused: false }), (4, Event::Perf(p)), (4, Event::Ranges(r)),
        (4, Event::Remark(said))] if p.bytes == 5 && r.total() == 5 && said == "FARLINE channels=8;")
    );
    assert_eq!(d.sent(), "");
    d.server("226 Transfer Complete.\r\n");
    assert_eq!(d.sent(), "STOR /x/y/b\r\n", "the mode is set once");
    d.server(
        "125 Beginning transfer; reusing existing data connection.\r\n226 Transfer Complete.\r\n",
    );
    assert!(matches!(d.events()[1..], [(5, Event::Started { reused: true }), (5, Event::Done(_))]));
}

#[test]
fn farline_gets_everything_at_once() {
    let mut d = Dialogue::farline();
    d.want(2, mkdir("/x")).want(9999, active());
    (3..1003).for_each(|id| _ = d.want(id, store("/x/f")));
    let sent = d.sent();
    assert!(
        sent.starts_with("MKD /x\r\nMODE E\r\nPORT 10,0,0,2,1,2\r\nSTOR /x/f\r\nSTOR /x/f\r\n")
    );
    let first = sent.matches("STOR").count();
    assert!((900..=997).contains(&first), "bounded: {first}");
    d.server("257 ok\r\n200 ok\r\n200 ok\r\n");
    (0..1000).for_each(|_| _ = d.server("125 ok\r\n226 ok\r\n"));
    assert_eq!(first + d.sent().matches("STOR").count(), 1000);
    assert_eq!(
        d.events().iter().filter(|(_, event)| matches!(event, Event::Done(_))).count(),
        1002
    );
}

#[test]
fn a_farline_node_is_asked_as_much_as_its_kernel_holds() {
    let mut d = Dialogue::farline();
    (2..9_002).for_each(|id| _ = d.want(id, Request::Stat(Pathname::new("/x/f"))));
    let first = d.sent().matches("MLST").count();
    assert!((5_000..6_000).contains(&first), "64 KiB of 11 bytes each: {first}");
    (0..9_000).for_each(|_| _ = d.server("250-\r\n Type=file;Size=1; /x/f\r\n250 End.\r\n"));
    assert_eq!(first + d.sent().matches("MLST").count(), 9_000);
}

#[test]
fn plain_ftp_gets_one_command_at_a_time_and_fewer_of_them() {
    let mut d = Dialogue::with("500 Unknown command.\r\n");
    assert_eq!(d.session.pipelining(), Pipelining::None);
    d.want(2, Request::Passive { mode: Mode::Stream, striped: false })
        .want(3, Request::Stat("/a".into()))
        .want(4, Request::List("/".into()));
    assert_eq!(d.sent(), "EPSV\r\n");
    d.server("500 EPSV not understood\r\n");
    assert_eq!(d.sent(), "PASV\r\n");
    d.server("227 Entering Passive Mode (10,0,0,1,1,2).\r\n");
    let address = "10.0.0.1:258".parse().expect("an address");
    assert!(
        matches!(&d.events()[..], [(2, Event::PassiveAt(at)), (2, Event::Done(_))] if at[..] == [address])
    );
    d.server("213 6\r\n").server("550 MDTM not allowed\r\n");
    assert_eq!(d.sent(), "SIZE /a\r\nMDTM /a\r\n");
    let events = d.events();
    assert!(
        matches!(&events[..2], [(3, Event::Entries(e)), (3, Event::Done(_))] if e[0].size == Some(6) && e[0].kind == ListingKind::File)
    );
    assert!(
        matches!(&events[2..], [(4, Event::Failed(error))] if error.code == ErrorCode::Unsupported)
    );
}

#[test]
fn restarts_parts_and_modules_are_spelled_out() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    let mut held = ByteRanges::new();
    held.insert(0..30);
    let whole = Transfer::new(TransferKind::Retrieve, "/a".into());
    d.want(2, Request::Transfer(Transfer { held: held.clone(), ..whole.clone() }));
    d.server("350 ok\r\n");
    assert_eq!(d.sent(), "REST 30\r\nRETR /a\r\n");
    d.server("150 ok\r\n226 ok\r\n").events();
    held.insert(60..90);
    d.want(3, Request::Transfer(Transfer { held: held.clone(), ..whole.clone() }));
    assert_eq!(d.failure(3).code, ErrorCode::BadRequest);
    d.sent();
    d.want(6, active()).server("200 ok\r\n").server("200 ok\r\n").sent();
    d.want(4, Request::Transfer(Transfer { held, part: Some((100, 1000)), ..whole.clone() }));
    d.server("350 ok\r\n").server("150 ok\r\n226 ok\r\n");
    assert_eq!(d.sent(), "REST 0-30,60-90\r\nERET P 100 1000 /a\r\n");
    let module = Some(Module { name: "FARLINE.TREE".into(), parms: "data".into() });
    let stored = Transfer { what: TransferKind::Store, module, size: Some(7), ..whole };
    d.events();
    d.want(5, Request::Transfer(stored))
        .server("500 no ALLO here\r\n")
        .server("150 ok\r\n226 ok\r\n");
    assert_eq!(d.sent(), "ALLO 7\r\nESTO FARLINE.TREE=\"data\" /a\r\n");
    assert!(
        matches!(d.events()[..], [(5, Event::Started { .. }), (5, Event::Done(_))]),
        "ALLO is optional"
    );
}

#[test]
fn a_list_of_all_names_is_asked_for_by_an_option() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    for (id, what, line) in [
        (2, TransferKind::LongListAll, "LIST -a /a b\r\n"),
        (3, TransferKind::LongList, "LIST /a b\r\n"),
    ] {
        d.want(id, Request::Transfer(Transfer::new(what, "/a b".into())));
        d.server("150 ok\r\n226 ok\r\n");
        assert_eq!(d.sent(), line);
        d.events();
    }
}

#[test]
fn a_modules_words_stand_in_no_error() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(1, active()).server("200 ok\r\n").server("200 ok\r\n").sent();
    d.events();
    for (id, what, said) in
        [(2, TransferKind::Store, "storing /a"), (3, TransferKind::Retrieve, "retrieving /a")]
    {
        let module = Some(Module { name: "FARLINE.TREE".into(), parms: "manifest".into() });
        let path = Pathname::new(b"/a".to_vec());
        d.want(id, Request::Transfer(Transfer { module, ..Transfer::new(what, path) }));
        d.server("550 /a: Not a directory\r\n");
        let error = d.failure(id);
        let told = format!("{said}: the server said 550 /a: Not a directory");
        assert_eq!((error.message, error.code), (told, ErrorCode::NotADirectory));
    }
}

#[test]
fn a_refused_restart_keeps_the_store_from_beginning() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    let mut transfer = Transfer::new(TransferKind::Store, "/a".into());
    transfer.held.insert(0..5);
    d.want(2, Request::Transfer(transfer)).server("501 no\r\n");
    assert_eq!(d.sent(), "REST 5\r\n");
    assert_eq!(d.failure(2).message, "REST 5: the server said 501 no");
}

#[test]
fn a_transfer_does_not_begin_in_a_mode_the_server_refused() {
    let mut d = Dialogue::with("500 Unknown command.\r\n");
    d.want(2, active()).want(3, store("/a")).server("504 MODE E is unknown\r\n");
    assert_eq!(d.sent(), "MODE E\r\n");
    assert!(
        matches!(&d.events()[..], [(2, Event::Failed(_)), (3, Event::Failed(error))] if error.code == ErrorCode::Unsupported)
    );
    d.want(4, Request::Passive { mode: Mode::Stream, striped: false });
    assert_eq!(d.sent(), "MODE S\r\n");
}

#[test]
fn what_a_plain_server_cannot_list_is_not_there() {
    let mut d = Dialogue::with("211-Features:\r\n MLST modify*;size*;type*;\r\n211 End\r\n");
    for (id, words, code) in [
        (2, "'/a' cannot be listed", ErrorCode::PathNotFound),
        (3, "/a: Permission denied", ErrorCode::PermissionDenied),
    ] {
        d.want(id, Request::Stat("/a".into()));
        d.server(&format!("550 {words}\r\n"));
        assert_eq!(d.failure(id).code, code, "{words}");
    }
}

#[test]
fn errors_have_a_fault_and_the_servers_words() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, Request::Stat("/none".into()));
    d.server(
        "550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n550-GridFTP-Errno: \
        2\r\n550-GridFTP-Reason: System error in stat\r\n",
    );
    d.server("550-GridFTP-Error-String: No such file or directory\r\n550 End.\r\n");
    let error = d.failure(2);
    assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::PathNotFound));
    assert_eq!(
        error.message,
        "MLST /none: the server said 550 System error in stat: No such file or directory"
    );
    d.want(3, mkdir("/a\nDELE /b"));
    assert_eq!(d.failure(3).code, ErrorCode::InvalidName);
    assert_eq!(d.sent(), "MLST /none\r\n");
}

#[test]
fn a_refused_login_says_so_without_the_password() {
    let mut d = Dialogue::new(ClientConfig::default());
    d.want(1, Request::Login { user: "bob".into(), password: "secret".into() });
    d.server("220 ready\r\n").server("331 Password\r\n").server("530 Login incorrect.\r\n");
    let error = d.failure(1);
    assert_eq!(
        (error.fault, &*error.message),
        (Fault::Refused, "PASS ****: the server said 530 Login incorrect.")
    );
}

#[test]
fn silence_and_closing_end_every_request() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, mkdir("/a")).want(3, store("/b"));
    d.now += Span::from_secs(60);
    d.poll();
    let events = d.events();
    assert!(matches!(&events[..], [(2, Event::Failed(a)), (3, Event::Failed(_))]
        if a.fault == Fault::Between && a.message == "the server has not sent a reply to MKD /a \
            for 60.0 s"));
    assert!(d.closed);
    d.want(4, mkdir("/c"));
    assert_eq!(d.failure(4).code, ErrorCode::ControlClosed);

    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, store("/b")).server("150 ok\r\n");
    d.now += Span::from_secs(3600);
    d.poll();
    assert!(!d.closed, "a transfer may take an hour");
    d.session.handle(d.now, Input::Closed);
    assert_eq!(d.poll().failure(2).code, ErrorCode::ControlClosed);
}

#[test]
fn single_bytes_are_no_reply_but_a_slow_one_is() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, mkdir("/a"));
    let mut drip = |text: &str| {
        d.now += Span::from_secs(1);
        d.server(text).closed
    };
    assert_eq!((1..1_000).find(|_| drip("2")), Some(60), "a byte a second for a minute");
    assert_eq!(d.failure(2).code, ErrorCode::ControlTimeout);

    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, mkdir("/a")).server("250-made\r\n");
    for _ in 0..600 {
        d.now += Span::from_secs(1);
        d.server(" and more and more\r\n");
    }
    d.server("250 done\r\n");
    assert!(matches!(d.events().pop(), Some((2, Event::Done(_)))), "160 bit/s, for ten minutes");
}

#[test]
fn a_server_that_closes_or_babbles_ends_the_session() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, mkdir("/a")).server("421 Shutting down.\r\n");
    assert_eq!(d.failure(2).code, ErrorCode::ServerClosing);
    let mut d = Dialogue::new(ClientConfig::default());
    d.want(1, mkdir("/a")).server("SSH-2.0-OpenSSH_9.2\r\n");
    let error = d.failure(1);
    assert_eq!((error.fault, error.code), (Fault::There, ErrorCode::ProtocolBroken));
    assert!(d.closed);
}

#[test]
fn an_abort_ends_what_runs_and_drops_what_waits() {
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, store("/a")).want(3, store("/b")).server("150 ok\r\n").sent();
    d.session.handle(d.now, Input::Abort { id: 3 });
    assert_eq!(d.poll().sent(), "");
    assert_eq!(d.failure(3).code, ErrorCode::Aborted);
    d.session.handle(d.now, Input::Abort { id: 2 });
    assert_eq!(d.poll().sent(), "ABOR\r\n");
    d.want(4, mkdir("/c")).server("426 Aborted.\r\n226 Abort successful\r\n");
    assert_eq!(d.failure(2).code, ErrorCode::DataConnection);
    assert_eq!(d.sent(), "MKD /c\r\n");
    d.server("257 ok\r\n");
    assert!(matches!(d.events()[..], [(4, Event::Done(_))]));
}

proptest! {
    #[test]
    fn no_replies_break_a_session(
        chunks in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..30),
            (100u16..660, "[ -][ -~]{0,20}").prop_map(|(code, rest)| format!("{code}{rest}\r\n").into_bytes()),
        ], 0..40),
        farline in any::<bool>(),
        abort in 0u64..12,
    ) {
        let mut d = if farline { Dialogue::farline() } else { Dialogue::with(GLOBUS_FEAT) };
        d.want(2, Request::Passive { mode: Mode::Extended, striped: true }).want(3, store("/a")).want(4, mkdir("/b")).want(5, store("/c"));
        d.want(6, Request::Rename { from: "/a".into(), to: "/b".into() }).want(7, Request::Stat(Pathname::root()));
        d.want(8, Request::List("/".into()));
        for chunk in &chunks {
            d.session.handle(d.now, Input::Received(chunk));
            d.poll();
        }
        d.session.handle(d.now, Input::Abort { id: abort });
        d.poll();
        d.session.handle(d.now, Input::Closed);
        d.poll();
        let mut ended: Vec<u64> = d.events.iter().filter(|(_, e)| matches!(e, Event::Done(_) | Event::Failed(_))).map(|(id, _)| *id).collect();
        ended.sort_unstable();
        prop_assert_eq!(ended, [2, 3, 4, 5, 6, 7, 8], "every request ends once");
        prop_assert!(d.closed);
    }
}

#[test]
fn to_farline_the_login_and_what_follows_go_out_in_one_segment() {
    let mut d =
        Dialogue::new(ClientConfig { host: "10.0.0.1".parse().ok(), ..ClientConfig::default() });
    d.want(1, Request::Login { user: "anonymous".into(), password: "me@".into() });
    d.want(2, Request::Passive { mode: Mode::Extended, striped: false })
        .want(3, Request::Stat("/a".into()));
    assert_eq!(
        d.server("220 Farline 0.1.0 GridFTP server ready.\r\n").sent(),
        "USER anonymous\r\nPASS me@\r\nFEAT\r\nTYPE I\r\nMODE E\r\nEPSV\r\nMLST /a\r\n"
    );
    d.server(
        "331 Password required.\r\n230 in\r\n211-Extensions\r\n FARLINE TREE\r\n MLST \
         Type*;\r\n211 End\r\n200 ok\r\n200 ok\r\n",
    );
    assert!(matches!(d.events()[..], [(1, Event::Ready(_)), (1, Event::Done(_))]));
    d.server("229 ok (|||5000|)\r\n550 No such file\r\n");
    assert!(matches!(
        d.events()[..],
        [(2, Event::PassiveAt(_)), (2, Event::Done(_)), (3, Event::Failed(_))]
    ));
}

#[test]
fn only_to_a_known_farline_does_the_login_precede_the_greeting() {
    let config = ClientConfig {
        host: "10.0.0.1".parse().ok(),
        known_farline: true,
        ..ClientConfig::default()
    };
    let mut d = Dialogue::new(config.clone());
    d.want(1, Request::Login { user: "anonymous".into(), password: "me@".into() });
    d.want(2, Request::Passive { mode: Mode::Extended, striped: false });
    assert_eq!(d.sent(), "USER anonymous\r\nPASS me@\r\nFEAT\r\nTYPE I\r\nMODE E\r\nEPSV\r\n");
    d.server("220 Farline 0.1.0 GridFTP server ready.\r\n331 Password required.\r\n230 in\r\n");
    d.server(
        "211-Extensions\r\n FARLINE TREE\r\n211 End\r\n200 ok\r\n200 ok\r\n229 ok (|||5000|)\r\n",
    );
    assert!(matches!(
        d.events()[..],
        [(1, Event::Ready(_)), (1, Event::Done(_)), (2, Event::PassiveAt(_)), (2, Event::Done(_))]
    ));
    let mut d = Dialogue::new(config);
    d.want(1, Request::Login { user: "anonymous".into(), password: "me@".into() });
    d.sent();
    d.server("220 vsFTPd 3\r\n").want(2, Request::Stat("/a".into()));
    assert_eq!(d.sent(), "");
    let failed = |event: &(u64, Event)| matches!(&event.1, Event::Failed(error) if matches!(error.code, ErrorCode::NotFarline | ErrorCode::ControlClosed));
    let events = d.events();
    assert!(events.len() == 2 && events.iter().all(failed), "{events:?}");
}

#[test]
fn a_refused_login_fails_all_that_went_out_with_it() {
    let mut d =
        Dialogue::new(ClientConfig { host: "10.0.0.1".parse().ok(), ..ClientConfig::default() });
    d.want(1, Request::Login { user: "ann".into(), password: "x".into() });
    d.want(2, Request::Passive { mode: Mode::Extended, striped: false });
    d.server("220 Farline 0.1.0 GridFTP server ready.\r\n").sent();
    d.server(
        "331 Password required.\r\n530 Login incorrect.\r\n530 no\r\n530 no\r\n530 no\r\n530 \
        no\r\n",
    );
    let failed: Vec<_> = d
        .events()
        .into_iter()
        .filter(|(_, event)| matches!(event, Event::Failed(error) if error.fault == Fault::Refused))
        .map(|(id, _)| id)
        .collect();
    assert_eq!(failed, [1, 2]);
}

#[test]
fn what_only_farline_understands_is_sent_to_no_other() {
    let option = || {
        let option =
            crate::gridftp::CommandOptions::Farline { name: "key".into(), value: "00".into() };
        Request::ToFarline(Box::new(Request::Exec(Command::Options(option))))
    };
    let mut d = Dialogue::with(GLOBUS_FEAT);
    d.want(2, option());
    assert_eq!(d.sent(), "");
    assert!(
        matches!(&d.events()[..], [(2, Event::Failed(error))] if error.code == ErrorCode::Unsupported)
    );
    let mut d = Dialogue::farline();
    d.want(2, option());
    assert_eq!(d.sent(), "OPTS FARLINE key=00;\r\n");
}
