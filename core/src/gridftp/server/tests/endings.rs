//! Idle, gone, flooding and nonsensical clients: how sessions end, and what does not end them.

use super::*;
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
    assert_eq!(d.others, [Output::StartTls]);
    assert_eq!(d.told(" /x"), "500", "no half line is left over");
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
