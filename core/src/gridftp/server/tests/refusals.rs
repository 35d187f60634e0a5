//! What a session refuses: before a login, without a right, out of order, not offered.

use super::*;

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
    assert_eq!(d.told("SITE TOKEN eyJ.x.y"), "530", "and no token taken");
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
    for line in ["SITE TOKEN eyJ.x.y", "OPTS TOKEN eyJ.x.y"] {
        d.client(&format!("{line}\r\n"));
        let (user, password) = (BEARER.as_bytes().to_vec(), b"eyJ.x.y".to_vec());
        assert_eq!(d.asked(), &Ask::Login { user, password });
        d.edge(Answer::LoggedIn(Rights::Read));
        assert_eq!(d.code(), "230");
    }
    let mut d = Dialogue::new(ServerConfig::default());
    (0..5).for_each(|_| _ = d.client("USER bob\r\n"));
    assert!(d.said().contains("421 Too many failed logins"));
    // Each is told of, since nobody was asked.
    let why = "bob: Only anonymous users are let in here.".to_owned();
    let told = vec![Output::LoginRefused(why); 5];
    assert_eq!(d.others, [told, vec![Output::Close]].concat());
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
fn what_makes_no_sense_is_told_to_the_operator_too() {
    let mut d = Dialogue::writable();
    for (line, said) in [("RNTO /x", "503 Send RNFR first."), ("PORT 1,2", "501 ")] {
        d.told(line);
        assert_eq!(d.rejected.len(), 1, "{line}: {:?}", d.rejected);
        assert!(d.rejected[0].starts_with(said), "{line}: {:?}", d.rejected);
        d.rejected.clear();
    }
    let failed = |code| Answer::Failed(Error::new(Fault::There, code, "no"));
    d.client("MKD /x\r\n").edge(failed(ErrorCode::InvalidName));
    assert!(d.rejected[0].starts_with("553 "), "{:?}", d.rejected);
    d.rejected.clear();
    // What an unknown client tries is no mistake of anybody's, and what is not there neither.
    d.told("NOPE");
    d.client("SIZE /x\r\n").edge(failed(ErrorCode::PathNotFound));
    assert!(d.rejected.is_empty(), "{:?}", d.rejected);
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
    // Another line of that length is no REST.
    d.client(&format!("NOOP {}\r\n", "x".repeat(9_000))).said();
    d.client("STOR /x\r\n");
    assert!(d.transfer().held.is_empty());
    d.edge(Answer::Finished { bytes: 1 }).said();
    // A good one behind it counts.
    d.client("REST 9-1\r\nREST 0-10,20-30\r\nESTO A 5 /x\r\n");
    assert_eq!(
        (d.transfer().held.to_string(), d.transfer().part),
        ("0-10,20-30".into(), Some(FilePart { offset: 5, length: None }))
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
fn a_reply_calls_a_setting_as_its_server_is_configured() {
    let refused = |hint: String| {
        let message = "this node does not let you test the line to it";
        Error::new(Fault::Refused, ErrorCode::LineNotAllowed, message).hint(hint)
    };
    for (setting_name, called) in
        [(SettingName::Key, "`allow_line` RATE"), (SettingName::Flag, "--allow-line RATE")]
    {
        let mut d = Dialogue::new(ServerConfig { setting_name, ..ServerConfig::default() });
        d.client("USER anonymous\r\nPASS x\r\nCWD /a\r\n");
        d.said();
        d.edge(Answer::Failed(refused(format!("allow it: {} RATE", Setting::AllowLine))));
        let said = d.said();
        assert!(said.contains(&format!("Hint: allow it: {called}\r\n")), "{said}");
    }
}

#[test]
fn who_speaks_http_is_sent_away_before_its_content_counts() {
    let long = format!("POST /{} HTTP/1.1\r\n", "a".repeat(9_000));
    for request in ["POST / HTTP/1.1\r\n", "get /f HTTP/1.0\r\n", "OPTIONS * HTTP/1.1\r\n", &long] {
        let mut d = Dialogue::new(ServerConfig {
            logins: Logins::Anonymous(Rights::Write),
            ..ServerConfig::default()
        });
        d.said();
        let content = "Host: dtn1:2811\r\n\r\nUSER anonymous\r\nPASS x\r\nDELE /f\r\n";
        d.client(&format!("{request}{content}"));
        let said = d.said();
        assert!(said.starts_with("421 ") && said.contains("HTTP"), "{said}");
        assert_eq!(said.lines().count(), 1, "nothing else is replied to");
        assert!(
            matches!(&d.others[..], [Output::LoginRefused(_), Output::Close]),
            "{:?}",
            d.others
        );
        assert!(d.open.is_none(), "and nothing is done");
    }
    // What is no request is a command, or none.
    let mut d = Dialogue::writable();
    for line in ["GET", "POSTED x", "GETS x"] {
        assert_eq!(d.told(line), "500", "{line}");
    }
    assert_eq!(d.told("NOOP"), "200");
}
