//! Idle, gone, flooding and nonsensical clients: how sessions end, and what does not end them.

use super::*;
use crate::gridftp::DataAuthentication;
use proptest::prelude::*;

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
    assert_eq!(d.others, [Output::StartTls { early: Vec::new() }]);
    assert_eq!(d.told(" /x"), "500", "no half line is left over");
}

#[test]
fn a_handshake_may_begin_behind_auth_tls() {
    let config = || ServerConfig { tls: true, ..ServerConfig::default() };
    let mut d = Dialogue::new(config());
    d.client("AUTH TLS\r\n\u{16}hello\r\nUSER x\r\n");
    assert_eq!(d.said(), "234 Proceed with the TLS handshake.\r\n");
    assert_eq!(d.others, [Output::StartTls { early: b"\x16hello\r\nUSER x\r\n".to_vec() }]);
    // Behind what is still to be replied to it is dropped as any other.
    let mut d = Dialogue::new(config());
    d.client("NOOP\r\nAUTH TLS\r\n\u{16}hello");
    assert_eq!(d.others, [Output::StartTls { early: Vec::new() }]);
}

#[test]
fn plain_text_behind_auth_gssapi_is_thrown_away() {
    let mut d = Dialogue::new(ServerConfig {
        tls: true,
        gssapi: true,
        features: vec!["FARLINE KEY".to_owned()],
        logins: Logins::Anyone(Rights::Write),
        ..ServerConfig::default()
    });
    d.client("FEAT\r\nUSER x\r\nPASS x\r\n");
    let said = d.said();
    assert!(said.contains(" AUTH GSSAPI\r\n") && said.contains("FARLINE KEY"), "{said}");
    d.client("AUTH GSSAPI\r\nUSER evil\r\nPASS x\r\nDELE");
    assert_eq!(d.said(), "334 Using authentication type GSSAPI; ADAT must follow.\r\n");
    assert_eq!(d.others, [Output::StartGssapi]);
    assert_eq!(d.told(" /x"), "500", "no half line is left over");
    assert_eq!(d.told("PWD"), "530", "who was let in in the clear is not in");
    assert_eq!(d.told("AUTH TLS"), "504", "one protection is enough");
    d.client("FEAT\r\n");
    assert!(!d.said().contains("FARLINE"), "its own ways are not those of GSI");
    d.client("DCAU S /CN=x\r\n");
    let how = DataAuthentication::Subject("/CN=x".to_owned());
    assert_eq!(d.asked(), &Ask::Authenticate { how });
    d.edge(Answer::Done);
    assert_eq!(d.code(), "200");
    d.client("PROT S\r\n");
    assert_eq!(d.asked(), &Ask::Protect { private: true });
}

#[test]
fn a_flood_of_commands_is_held_back_and_then_ended() {
    let mut d = Dialogue::writable();
    d.listening("PASV").client("RETR /a\r\n");
    let flood = "NOOP\r\n".repeat(2_000);
    assert!(d.session.wants_input());
    d.client(&flood).client(&flood);
    assert!(!d.session.wants_input());
    assert_eq!(d.others, [Output::LimitStruck(SessionLimit::CommandQueue)]);
    (0..20).for_each(|_| _ = d.client(&flood));
    assert!(d.said().contains("421 Too many commands"));
    assert!(d.others.contains(&Output::Close));
}

#[test]
fn replies_follow_soon_while_commands_wait_and_no_transfer_runs() {
    let mut d = Dialogue::writable();
    assert!(!d.session.replies_soon());
    d.client("MLST /\r\n");
    assert!(!d.session.replies_soon(), "nothing waits behind it");
    d.client("NOOP\r\n");
    assert!(d.session.replies_soon());
    d.edge(not_found());
    assert!(!d.session.replies_soon());
    d.listening("PASV").client("RETR /a\r\nNOOP\r\n");
    assert!(!d.session.replies_soon(), "a transfer takes long");
}

#[test]
fn a_line_that_is_too_long_gets_500_and_the_session_goes_on() {
    let mut d = Dialogue::writable();
    d.client(&format!("RETR {}\r\nNOOP\r\n", "x".repeat(9000)));
    assert_eq!(
        d.said(),
        "500 A command line has at most 8192 bytes.\r\n200 NOOP command successful.\r\n"
    );
    assert_eq!(d.others, [Output::LimitStruck(SessionLimit::CommandLine)]);
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
    assert_eq!(d.others, [Output::StartTls { early: Vec::new() }]);
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
    assert!(d.session.is_login_late());
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
fn a_login_at_which_nobody_has_looked_ends_with_a_word() {
    let mut d = Dialogue::new(ServerConfig {
        logins: Logins::Asked { anonymous: None },
        secure: true,
        ..ServerConfig::default()
    });
    d.client("USER bob\r\nPASS x\r\nSTAT\r\n").said();
    let late = Error::new(Fault::There, ErrorCode::ServerClosing, "No turn to log in.");
    d.edge(Answer::Failed(late));
    assert_eq!(d.said(), "421 No turn to log in.\r\n", "and it is no failed login");
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

/// Two thousand lines of five bytes, each with a reply of a kilobyte: who sends them and reads
/// nothing has the server keep little.
#[test]
fn replies_wait_in_few_bytes_until_they_have_gone() {
    let mut session = ServerSession::new(ServerConfig::default(), Time::ZERO);
    let lines = "FEAT\n".repeat(2_000);
    session.handle(Time::ZERO, Input::Received(lines.as_bytes()));
    let (mut longest, mut said) = (0, Vec::new());
    loop {
        match session.poll(Time::ZERO) {
            Output::Send(bytes) => {
                longest = longest.max(bytes.len());
                said.extend(bytes);
            }
            Output::Wait(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(longest < 80 << 10, "{longest} bytes at once");
    let said = String::from_utf8(said).expect("text");
    assert_eq!(said.matches("211 End").count(), 2_000, "each has its reply");
}
