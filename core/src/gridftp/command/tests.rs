//! Commands of real clients, and every command through the wire and back.

use super::*;
use crate::gridftp::facts::{Fact, FactSet};
use crate::units::{Bytes, ErrorCode, Span};
use proptest::prelude::*;

fn parse(line: &str) -> Command {
    Command::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str) -> String {
    Command::parse(line.as_bytes()).expect_err(line).to_string()
}

#[test]
fn what_globus_url_copy_sends_is_understood() {
    assert_eq!(parse("SITE HELP"), Command::Site(Site::Help));
    assert!(matches!(
        parse("SITE CLIENTINFO scheme=ftp;appname=\"globus-url-copy\";appver=\"10.12 (gcc64)\";"),
        Command::Site(Site::ClientInfo(info)) if info.starts_with("scheme=ftp;appname")
    ));
    assert_eq!(
        parse("OPTS RETR Parallelism=4,4,4;"),
        Command::Options(CommandOptions::Retrieve(RetrieveOptions {
            parallelism: Some((4, 4, 4)),
            ..Default::default()
        }))
    );
    assert_eq!(
        parse("SITE STORBUFSIZE 1000000"),
        Command::Site(Site::SocketBuffer { store: true, size: Bytes(1_000_000) })
    );
    assert_eq!(
        parse("ESTO A 100 /tmp/x y"),
        Command::ExtendedStore(Extent::At { offset: 100 }, "/tmp/x y".into())
    );
    let part = Extent::Part { offset: 100, length: 1000 };
    assert_eq!(parse("ERET P 100 1000 /big"), Command::ExtendedRetrieve(part, "/big".into()));
    assert_eq!(parse("MLSD /data/run7/"), Command::MachineList(Some("/data/run7/".into())));
    assert_eq!(
        parse("PORT 127,0,0,1,164,165"),
        Command::Port("127.0.0.1:42149".parse().expect("an address"))
    );
    assert_eq!(parse("ALLO 3000000"), Command::Allocate(3_000_000));
}

#[test]
fn what_lftp_and_curl_send_is_understood() {
    assert_eq!(parse("LANG"), Command::Language(None));
    assert_eq!(parse("OPTS UTF8 ON"), Command::Options(CommandOptions::Utf8(true)));
    assert_eq!(
        parse("OPTS MLST Type;Size;"),
        Command::Options(CommandOptions::Facts(FactSet::NONE.with(Fact::Type).with(Fact::Size)))
    );
    assert_eq!(parse("LIST -a -l"), Command::List(None));
    assert_eq!(parse("LIST -la /x"), Command::List(Some("/x".into())));
    assert_eq!(parse("xpwd"), Command::PrintDirectory);
    assert_eq!(Command::parse(b"\xff\xf4\xff\xf2ABOR"), Ok(Command::Abort));
    assert_eq!(
        Command::parse(b"\xff\xf4\xf2ABOR"),
        Ok(Command::Abort),
        "the urgent byte went another way"
    );
}

#[test]
fn farlines_own_extensions_ride_on_modules_and_options() {
    let module = Module { name: "FARLINE.TREE".into(), parms: "manifest".into() };
    assert_eq!(
        parse("ESTO FARLINE.TREE=\"manifest\" /dst"),
        Command::ExtendedStore(Extent::Module(module), "/dst".into())
    );
    assert_eq!(
        parse("OPTS FARLINE congestion=bbr;"),
        Command::Options(CommandOptions::Farline {
            name: "congestion".into(),
            value: "bbr".into()
        })
    );
}

#[test]
fn what_is_wrong_is_said_with_the_syntax() {
    assert_eq!(
        refused("REST 30-0"),
        "`30-0` is not understood. Syntax: REST <offset> | <start>-<end>,..."
    );
    assert_eq!(refused("RETR"), "Syntax: RETR <path>");
    assert_eq!(refused("NOPE x"), "Command `NOPE` is not known; HELP lists those that are.");
    for line in [
        "",
        " ",
        "OPTS RETR Parallelism=4,4;",
        "CKSM MD5 0 x",
        "ERET A 0 /x",
        "ESTO P 0 1 /x",
        "SPOR",
        "SPOR x",
    ] {
        assert!(Command::parse(line.as_bytes()).is_err(), "{line}");
    }
    for line in [
        "ERET P 18446744073709551615 2 /x",
        "ESTO M=\"a /x",
        "ESTO M=\"a\"/x",
        "ESTO =\"a\" /x",
        "OPTS X",
        "SITE",
        "SITE SYMLINK a",
        "SITE SYMLINK a ",
        "SITE SYMLINK  a",
        "SITE SYMLINK a b c",
        "SITE SYMLINK a /b /c",
    ] {
        assert!(Command::parse(line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn a_link_has_a_target_and_a_path_that_can_be_told_apart() {
    for (line, target, path) in [
        ("SITE SYMLINK a b", "a", "b"),
        ("site symlink ../x /dir/b", "../x", "/dir/b"),
        ("SITE SYMLINK /etc/hosts b", "/etc/hosts", "b"),
        ("SITE SYMLINK a b /dir/c d", "a b", "/dir/c d"),
    ] {
        let link = Command::Site(Site::MakeLink { target: target.into(), path: path.into() });
        assert_eq!(parse(line), link, "{line}");
        let said = link.encode().expect("a line");
        assert_eq!(parse(std::str::from_utf8(&said[..said.len() - 2]).expect("text")), link);
    }
}

#[test]
fn no_name_can_smuggle_in_a_second_command() {
    for name in ["a\nDELE b", "a\r\nDELE b", "a\0b"] {
        assert!(
            Command::Retrieve(name.into())
                .encode()
                .is_err_and(|error| error.code == ErrorCode::InvalidName)
        );
    }
    assert!(Command::User(b"me\r\nQUIT".to_vec()).encode().is_err());
    assert!(Command::Site(Site::Other("X\r".into())).encode().is_err());
    assert_eq!(
        Command::Retrieve("a\rb".into()).encode().ok(),
        Some(b"RETR a\r\0b\r\n".to_vec()),
        "RFC 2640 section 3.1"
    );
    assert!(Command::Retrieve(Pathname::new(vec![b'x'; 9000])).encode().is_err());
}

#[test]
fn passwords_are_not_shown() {
    assert_eq!(format!("{:?}", Command::Password(b"secret".to_vec())), "PASS ****");
    assert_eq!(format!("{:?}", Command::Retrieve("/a".into())), "RETR /a");
    let token = Command::Token(b"eyJ.eyJ.c2ln".to_vec());
    for line in ["SITE TOKEN eyJ.eyJ.c2ln", "opts token eyJ.eyJ.c2ln"] {
        assert_eq!(parse(line), token, "{line}");
    }
    assert_eq!(format!("{token:?}"), "SITE TOKEN ****");
    assert_eq!(token.encode().ok(), Some(b"SITE TOKEN eyJ.eyJ.c2ln\r\n".to_vec()));
}

#[test]
fn a_restart_with_too_many_ranges_names_the_longest() {
    let mut held = ByteRanges::new();
    held.insert(0..1 << 40);
    (0..2_000u64)
        .map(|i| (1 << 41) + i * 1_000)
        .for_each(|start| _ = held.insert(start..start + 1 + start % 7));
    let line = Command::Restart(Restart::Held(held.clone())).encode().expect("it fits");
    assert!(line.len() <= crate::gridftp::line::MAX_LINE + 2);
    let Ok(Command::Restart(Restart::Held(said))) = Command::parse(&line[..line.len() - 2]) else {
        panic!("REST")
    };
    assert!(said.contains(&(0..1 << 40)));
    assert!(said.iter().all(|range| held.contains(&range)), "only what is held is said to be");
}

fn paths() -> impl Strategy<Value = Pathname> {
    prop::collection::vec(1u8.., 1..12)
        .prop_filter("as typed", |bytes| !bytes.contains(&b'\n') && bytes[0] != b'-')
        .prop_map(Pathname::new)
}

fn extents() -> impl Strategy<Value = Extent> {
    prop_oneof![
        (0u64..1 << 60, 0u64..1 << 60).prop_map(|(offset, length)| Extent::Part { offset, length }),
        any::<u64>().prop_map(|offset| Extent::At { offset }),
        ("[A-Z.]{1,9}", "[ -~é]{0,9}")
            .prop_map(|(name, parms)| Extent::Module(Module { name, parms })),
    ]
}

fn options() -> impl Strategy<Value = CommandOptions> {
    let retrieve =
        (any::<Option<(u32, u32, u32)>>(), any::<Option<u64>>(), prop::option::of(0u64..999))
            .prop_map(|(parallelism, size, seconds)| RetrieveOptions {
                parallelism,
                layout: parallelism.map(|_| StripeLayout::Partitioned),
                block_size: size.map(Bytes),
                window: None,
                markers: seconds.map(Span::from_secs),
            });
    prop_oneof![
        retrieve.prop_map(CommandOptions::Retrieve),
        ("[a-z]{1,9}", "[a-z0-9.]{0,9}")
            .prop_map(|(name, value)| CommandOptions::Farline { name, value }),
        any::<bool>().prop_map(|allow_delayed| CommandOptions::Passive { allow_delayed }),
        (0u64..99).prop_map(|n| CommandOptions::Checksum { markers: Span::from_secs(n) }),
        Just(CommandOptions::Facts(FactSet::NONE.with(Fact::Size))),
    ]
}

fn commands() -> impl Strategy<Value = Command> {
    let plain = prop::sample::select(vec![
        Command::Abort,
        Command::ChangeUp,
        Command::Features,
        Command::Noop,
        Command::Passive,
        Command::PrintDirectory,
        Command::Quit,
        Command::System,
        Command::ExtendedPassive(Epsv::All),
        Command::Mode(Mode::Extended),
        Command::Type(Type::Image),
        Command::Protection(Protection::Private),
        Command::DataAuthentication(DataAuthentication::Subject("/CN=x y".into())),
        Command::TransferEvents { event: TransferEvent::Perf, seconds: 5 },
        Command::Site(Site::Help),
        Command::StripedPassive(Some(Family::V6)),
    ]);
    let on_path = (0usize..14, paths()).prop_map(|(which, path)| match which {
        0 => Command::Retrieve(path),
        1 => Command::Store(path),
        2 => Command::Append(path),
        3 => Command::Size(path),
        4 => Command::MakeDirectory(path),
        5 => Command::RemoveDirectory(path),
        6 => Command::Delete(path),
        7 => Command::RenameFrom(path),
        8 => Command::List(Some(path)),
        9 => Command::MachineStatus(Some(path)),
        10 => Command::SetModified(Timestamp::from_seconds(86_400), path),
        11 => Command::Site(Site::SetMode(0o640, path)),
        12 => Command::Site(Site::SetModified(Timestamp::from_seconds(1), path)),
        _ => Command::Checksum { algorithm: "MD5".into(), offset: 3, length: None, path },
    });
    prop_oneof![
        plain,
        on_path,
        (extents(), paths()).prop_map(|(extent, path)| match extent {
            Extent::At { .. } => Command::ExtendedStore(extent, path),
            extent => Command::ExtendedRetrieve(extent, path),
        }),
        options().prop_map(Command::Options),
        prop::collection::vec(
            (any::<std::net::IpAddr>(), any::<u16>()).prop_map(SocketAddr::from),
            1..4
        )
        .prop_map(Command::StripedPort),
        any::<u64>().prop_map(|n| Command::Restart(Restart::Offset(n))),
    ]
}

proptest! {
    #[test]
    fn commands_survive_the_wire(command in commands()) {
        let line = command.encode().expect("these fit");
        prop_assert_eq!(Command::parse(&line[..line.len() - 2]), Ok(command));
    }

    #[test]
    fn any_line_is_safe(line in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Command::parse(&line);
    }

    #[test]
    fn any_argument_is_safe(verb in prop::sample::select(VERBS.to_vec()), rest in "[A-Za-z0-9 =;,|\"\\\\.é-]{0,40}") {
        if let Ok(command) = Command::parse(format!("{} {rest}", verb.name).as_bytes()) {
            let _ = command.encode();
            prop_assert!(!command.shown().is_empty());
        }
    }
}
