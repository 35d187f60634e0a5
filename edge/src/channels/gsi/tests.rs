//! Chains of certificates as users, jobs and thieves show them, against the acceptor in memory.

mod revocations;

use super::authorities::Purpose;
use super::pipe::{Pipe, read_all, write_all};
use super::*;
use crate::channels::pending::Steps;
use crate::channels::trust::{Fingerprint, GridProxy};
use farline_core::gridftp::ProxyKind;
use openssl::asn1::{Asn1Integer, Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private, Public};
use openssl::ssl::{Ssl, SslStream};
use openssl::x509::extension::BasicConstraints;
use openssl::x509::{X509, X509Extension, X509Name, X509NameRef, X509Req};
use std::fs;

/// What stands in `policyLanguage`, DER.
const FULL: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 21, 1];
const INDEPENDENT: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 21, 2];
const LIMITED: &[u8] = &[6, 11, 0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

#[derive(Clone)]
struct TestCredential {
    chain: Vec<X509>,
    key: PKey<Private>,
}

/// What a certificate is to be.
struct Wanted<'a> {
    subject: X509Name,
    is_authority: bool,
    /// A proxy's language, and how many more may follow it.
    proxy: Option<(&'a [u8], Option<u8>)>,
    from: i64,
    until: i64,
}

fn key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

fn name(base: Option<&X509NameRef>, more: &[(&str, &str)]) -> X509Name {
    let mut name = X509Name::builder().expect("memory");
    for entry in base.into_iter().flat_map(X509NameRef::entries) {
        let value = entry.data().to_string().expect("text");
        name.append_entry_by_nid(entry.object().nid(), &value).expect("an attribute");
    }
    for (attribute, value) in more {
        name.append_entry_by_text(attribute, value).expect("an attribute");
    }
    name.build()
}

fn days(days: i64) -> Asn1Time {
    let now = crate::sys::clock::since_1970().as_secs() as i64;
    Asn1Time::from_unix(now + days * 86_400).expect("a time")
}

/// A certificate for `public`, signed by `by`, or by itself.
fn certificate(
    wanted: &Wanted<'_>,
    public: &PKey<Public>,
    by: (&X509NameRef, &PKey<Private>),
) -> X509 {
    let mut builder = X509::builder().expect("memory");
    builder.set_version(2).expect("a version");
    let mut serial = BigNum::new().expect("memory");
    serial.rand(63, openssl::bn::MsbOption::MAYBE_ZERO, false).expect("random");
    builder.set_serial_number(&Asn1Integer::from_bn(&serial).expect("a number")).expect("set");
    builder.set_subject_name(&wanted.subject).expect("set");
    builder.set_issuer_name(by.0).expect("set");
    builder.set_not_before(&days(wanted.from)).expect("set");
    builder.set_not_after(&days(wanted.until)).expect("set");
    builder.set_pubkey(public).expect("set");
    if wanted.is_authority {
        let extension = BasicConstraints::new().critical().ca().build().expect("an extension");
        builder.append_extension(extension).expect("set");
    }
    if let Some((language, length)) = wanted.proxy {
        let length = length.map(|length| vec![2, 1, length]).unwrap_or_default();
        let policy = [&[0x30, language.len() as u8], language].concat();
        let info = [&[0x30, (length.len() + policy.len()) as u8], &length[..], &policy].concat();
        let oid = Asn1Object::from_str("1.3.6.1.5.5.7.1.14").expect("an OID");
        let value = Asn1OctetString::new_from_bytes(&info).expect("memory");
        let extension = X509Extension::new_from_der(&oid, true, &value).expect("an extension");
        builder.append_extension(extension).expect("set");
    }
    builder.sign(by.1, MessageDigest::sha256()).expect("signed");
    builder.build()
}

fn public(key: &PKey<Private>) -> PKey<Public> {
    PKey::public_key_from_der(&key.public_key_to_der().expect("DER")).expect("a key")
}

/// A grid with an authority that may sign `/O=Grid/*`, in a folder.
struct Grid {
    folder: tempfile::TempDir,
    authority: TestCredential,
    gsi: Gsi,
}

impl Grid {
    fn new(limited_proxies: bool) -> Grid {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let (secret, subject) = (key(), name(None, &[("O", "Grid"), ("CN", "Grid CA")]));
        let wanted = Wanted {
            subject: name(Some(&subject), &[]),
            is_authority: true,
            proxy: None,
            from: -2,
            until: 2,
        };
        let own = certificate(&wanted, &public(&secret), (&subject, &secret));
        fs::create_dir(at.join("certificates")).expect("a folder");
        let hash = format!("{:08x}", own.subject_name_hash());
        let put = |name: &str, bytes: &[u8]| fs::write(at.join(name), bytes).expect("written");
        put(&format!("certificates/{hash}.0"), &own.to_pem().expect("PEM"));
        let policy = "access_id_CA X509 '/O=Grid/CN=Grid CA'\npos_rights globus CA:sign\n\
                      cond_subjects globus '\"/O=Grid/*\"'\n";
        put(&format!("certificates/{hash}.signing_policy"), policy.as_bytes());
        let authority = TestCredential { chain: vec![own], key: secret };
        let host = signed(&authority, &[("O", "Grid"), ("CN", "node")], 2);
        put("hostcert.pem", &host.chain[0].to_pem().expect("PEM"));
        put("hostkey.pem", &host.key.private_key_to_pem_pkcs8().expect("PEM"));
        let settings = GridSecurity { folder: at.to_owned(), limited_proxies };
        let gsi = Gsi::open(&settings).expect("it opens");
        Grid { folder, authority, gsi }
    }

    fn user(&self, who: &str) -> TestCredential {
        signed(&self.authority, &[("O", "Grid"), ("CN", who)], 2)
    }

    /// What the acceptor says to a client with these certificates, who says `flag` and answers a
    /// request with what `delegate` makes of it.
    fn exchange(
        &self,
        own: &TestCredential,
        flag: &[u8],
        delegate: impl Fn(X509Req) -> Vec<u8>,
    ) -> Result<(SslStream<Pipe>, GssContext, Peer, Option<DataSecurity>), String> {
        let credential = Credential::of(own.chain.clone(), own.key.clone());
        let built = self.gsi.authorities.context(&credential, Purpose::Anything);
        let (context, _) = built.expect("TLS");
        let mut tls =
            SslStream::new(Ssl::new(&context).expect("TLS"), Pipe::default()).expect("TLS");
        let mut acceptor = self.gsi.accept().expect("TLS");
        let mut said = false;
        loop {
            // The client may only find out from the acceptor what became of it.
            let is_up = tls.connect().is_ok();
            if is_up && !tls.get_ref().has_outgoing() {
                match &read_all(&mut tls).expect("TLS")[..] {
                    [] | [0] if !said => {
                        write_all(&mut tls, flag).expect("TLS");
                        said = true;
                    }
                    [] => {}
                    request => {
                        let request = X509Req::from_der(request).expect("a request");
                        write_all(&mut tls, &delegate(request)).expect("TLS");
                    }
                }
            }
            let token = tls.get_mut().take();
            assert!(!token.is_empty(), "the client is stuck");
            match acceptor.take(&token)? {
                (Some(next), Step::More(token)) => {
                    acceptor = next;
                    tls.get_mut().put(&token);
                }
                (_, Step::Done(context, peer, data)) => return Ok((tls, *context, peer, data)),
                (None, Step::More(_)) => panic!("more of nobody"),
            }
        }
    }

    /// Who the acceptor takes it for.
    fn taken(&self, own: &TestCredential) -> Result<(String, bool), String> {
        let came = self.exchange(own, b"0", |_| Vec::new());
        came.map(|(_, _, peer, _)| (peer.subject, peer.is_limited))
    }
}

/// A certificate of the authority `by`.
fn signed(by: &TestCredential, subject: &[(&str, &str)], until: i64) -> TestCredential {
    let secret = key();
    let wanted =
        Wanted { subject: name(None, subject), is_authority: false, proxy: None, from: -2, until };
    let own = certificate(&wanted, &public(&secret), (by.chain[0].subject_name(), &by.key));
    TestCredential { chain: vec![own], key: secret }
}

/// A proxy that `by` signs.
fn proxy(by: &TestCredential, language: &[u8], length: Option<u8>, until: i64) -> TestCredential {
    let secret = key();
    let own = proxy_for(by, &public(&secret), "123", Some((language, length)), until);
    TestCredential { chain: [vec![own], by.chain.clone()].concat(), key: secret }
}

fn proxy_for(
    by: &TestCredential,
    public: &PKey<Public>,
    more: &str,
    proxy: Option<(&[u8], Option<u8>)>,
    until: i64,
) -> X509 {
    let subject = name(Some(by.chain[0].subject_name()), &[("CN", more)]);
    let wanted = Wanted { subject, is_authority: false, proxy, from: -2, until };
    certificate(&wanted, public, (by.chain[0].subject_name(), &by.key))
}

#[test]
fn a_proxy_is_whose_certificate_signed_it() {
    let grid = Grid::new(true);
    let alice = grid.user("alice");
    let is = |is_limited| Ok(("/O=Grid/CN=alice".to_owned(), is_limited));
    assert_eq!(grid.taken(&alice), is(false));
    let once = proxy(&alice, FULL, None, 1);
    assert_eq!(grid.taken(&once), is(false));
    assert_eq!(grid.taken(&proxy(&once, FULL, None, 1)), is(false));
    let limited = proxy(&once, LIMITED, None, 1);
    assert_eq!(grid.taken(&limited), is(true));
    assert_eq!(grid.taken(&proxy(&limited, FULL, None, 1)), is(true), "what is limited stays so");
    let strict = Grid::new(false);
    let limited = proxy(&strict.user("alice"), LIMITED, None, 1);
    let refused = strict.taken(&limited).expect_err("refused");
    assert!(refused.contains("limited proxies are not taken"), "{refused}");
}

#[test]
fn chains_that_are_none_are_refused_with_the_reason() {
    let grid = Grid::new(true);
    let (alice, bob) = (grid.user("alice"), grid.user("bob"));
    let full = |by: &TestCredential| proxy(by, FULL, None, 1);
    // Bob signs in alice's name.
    let secret = key();
    let wanted = Wanted {
        subject: name(Some(alice.chain[0].subject_name()), &[("CN", "1")]),
        is_authority: false,
        proxy: Some((FULL, None)),
        from: -2,
        until: 1,
    };
    let forged = certificate(&wanted, &public(&secret), (bob.chain[0].subject_name(), &bob.key));
    let forged = TestCredential { chain: vec![forged, bob.chain[0].clone()], key: secret };
    // No proxy, for nothing says so: what Globus 2 had, or somebody who plays authority.
    let secret = key();
    let old = proxy_for(&alice, &public(&secret), "proxy", None, 1);
    let old = TestCredential { chain: vec![old, alice.chain[0].clone()], key: secret };
    // An authority that nobody knows.
    let other = Grid::new(true).user("alice");
    // One that may not sign that name.
    let odd = signed(&grid.authority, &[("O", "Else"), ("CN", "alice")], 2);
    for (own, why) in [
        (forged, "proxy subject name violation"),
        (old, "invalid CA certificate"),
        (full(&other), "certificate"),
        (full(&odd), "may not sign that name"),
        (proxy(&alice, FULL, None, -1), "certificate has expired"),
        (full(&proxy(&alice, FULL, None, -1)), "certificate has expired"),
        (
            full(&signed(&grid.authority, &[("O", "Grid"), ("CN", "alice")], -1)),
            "certificate has expired",
        ),
        (full(&full(&proxy(&alice, FULL, Some(0), 1))), "proxy path length constraint exceeded"),
        (proxy(&alice, INDEPENDENT, None, 1), "a policy that is not known here"),
        (full(&proxy(&alice, INDEPENDENT, None, 1)), "a policy that is not known here"),
    ] {
        let refused = grid.taken(&own).expect_err(why);
        assert!(refused.contains(why), "{refused}, not {why}");
    }
    // Its policy is gone: it may sign nothing.
    let hash = format!("{:08x}", grid.authority.chain[0].subject_name_hash());
    let policy = grid.folder.path().join(format!("certificates/{hash}.signing_policy"));
    fs::remove_file(policy).expect("removed");
    let refused = grid.taken(&full(&alice)).expect_err("refused");
    assert!(refused.contains("its signing policy"), "{refused}");
}

#[test]
fn what_is_delegated_makes_data_connections_the_clients_own() {
    let grid = Grid::new(true);
    let alice = proxy(&grid.user("alice"), FULL, None, 1);
    let sign = |by: &TestCredential, request: &X509Req| {
        let public = request.public_key().expect("a key");
        proxy_for(by, &public, "9", Some((FULL, None)), 1).to_der().expect("DER")
    };
    let came = grid.exchange(&alice, b"D", |request| sign(&alice, &request));
    let (mut tls, mut context, peer, data) = came.expect("taken");
    assert_eq!(peer.subject, "/O=Grid/CN=alice");
    // Lines within the exchange's protection, both ways, each token by itself.
    let token = context.seal(b"230 in\r\n").expect("TLS");
    tls.get_mut().put(&token);
    assert_eq!(read_all(&mut tls).expect("TLS"), b"230 in\r\n");
    write_all(&mut tls, b"NOOP\r\n").expect("TLS");
    let mut token = tls.get_mut().take();
    assert_eq!(context.open(&token).expect("TLS"), b"NOOP\r\n");
    let last = token.len() - 1;
    token[last] ^= 1;
    context.open(&token).expect_err("a token that was changed, or came twice");
    // Data connections.
    let data = data.expect("delegated");
    let meet = |connects: &DataSecurity, accepts: &DataSecurity| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let (far, _) = listener.accept().expect("a connection");
        far.set_nonblocking(true).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| {
                let near = near.expect("it listens");
                let mut stream = connects.connect(near, std::time::Duration::from_secs(10))?;
                std::io::Write::write_all(&mut stream, b"what follows")?;
                stream.finish()
            });
            let accepted = runtime.expect("a runtime").block_on(async {
                let mut far = tokio::net::TcpStream::from_std(far)?;
                let mut handshake = accepts.accept()?;
                handshake.run(&mut far, &Steps::default()).await?;
                handshake.over(far.into_std()?)
            });
            let read = accepted.and_then(|mut stream| {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut stream, &mut text).map(|_| text)
            });
            let connected = connecting.join().expect("no panic");
            read.and_then(|text| connected.map(|()| text)).map_err(|error| error.to_string())
        })
    };
    for is_private in [false, true] {
        let data = data.with(None, is_private);
        assert_eq!(meet(&data, &data).as_deref(), Ok("what follows"));
        let wants_bob = data.with(Some("/O=Grid/CN=bob"), is_private);
        let refused = meet(&data, &wants_bob).expect_err("of alice");
        assert!(refused.contains("of /O=Grid/CN=alice, not of /O=Grid/CN=bob"), "{refused}");
        meet(&wants_bob, &data).expect_err("of alice");
    }
    // For a key that nobody asked about.
    let other = X509Req::builder().map(|mut request| {
        request.set_pubkey(&key()).expect("set");
        request.build()
    });
    let other = other.expect("a request");
    let refused = grid.exchange(&alice, b"D", |_| sign(&alice, &other)).expect_err("another key");
    assert!(refused.contains("no certificate for the key asked for"), "{refused}");
    let refused = grid.exchange(&alice, b"X", |_| Vec::new()).expect_err("no flag");
    assert!(refused.contains("neither D nor 0"), "{refused}");
}

#[test]
fn a_renewed_certificate_counts_and_a_damaged_one_does_not() {
    let grid = Grid::new(true);
    let at = |name: &str| grid.folder.path().join(name);
    let first = Arc::clone(&grid.gsi.credential());
    assert!(Arc::ptr_eq(&first, &grid.gsi.credential()), "read once");
    let write = |name: &str, bytes: &[u8], second: u64| {
        fs::write(at(name), bytes).expect("written");
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
        fs::File::open(at(name)).and_then(|file| file.set_modified(time)).expect("a time");
    };
    let old = fs::read(at("hostcert.pem")).expect("read");
    write("hostcert.pem", b"half of it", 1_000);
    assert!(Arc::ptr_eq(&first, &grid.gsi.credential()), "the last good one stays");
    write("hostcert.pem", &old, 2_000);
    assert!(!Arc::ptr_eq(&first, &grid.gsi.credential()), "read again");
}

/// A user's proxy in a file, with what its grid trusts.
fn user_proxy(grid: &Grid, own: &TestCredential, mode: u32) -> Result<UserProxy, Error> {
    use std::os::unix::fs::PermissionsExt;
    let file = grid.folder.path().join("proxy");
    let mut pem = own.chain[0].to_pem().expect("PEM");
    pem.extend(own.key.private_key_to_pem_pkcs8().expect("PEM"));
    own.chain[1..].iter().for_each(|signer| pem.extend(signer.to_pem().expect("PEM")));
    fs::write(&file, pem).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
    let authorities = Some(grid.folder.path().join("certificates"));
    UserProxy::find(&GridProxy { file: Some(file), authorities })
}

/// Both ends' words of an exchange between `proxy` and the node of `node`.
fn met(
    proxy: &UserProxy,
    node: &Grid,
    wanted: WantedServer,
) -> Result<(GssContext, GssContext, Peer, DataSecurity), Result<String, Distrust>> {
    let mut initiator = Initiator::new(proxy, wanted).map_err(Err)?;
    let mut acceptor = node.gsi.accept().expect("TLS");
    let mut token = initiator.take(&[]).map_err(Err)?;
    loop {
        match acceptor.take(&token).map_err(Ok)? {
            (Some(next), Step::More(reply)) => {
                acceptor = next;
                token = initiator.take(&reply).map_err(Err)?;
            }
            (_, Step::Done(context, peer, data)) => {
                let own = initiator.finish().map_err(Err)?;
                return Ok((own, *context, peer, data.expect("delegated")));
            }
            (None, Step::More(_)) => panic!("more of nobody"),
        }
    }
}

fn wanted(host: &str) -> WantedServer {
    WantedServer { host: host.to_owned(), fingerprint: None }
}

#[test]
fn a_client_shows_its_proxy_and_delegates_a_limited_one() {
    let grid = Grid::new(true);
    let alice = proxy(&grid.user("alice"), FULL, None, 1);
    let own = user_proxy(&grid, &alice, 0o600).expect("a proxy");
    assert_eq!(own.subject(), "/O=Grid/CN=alice");
    let came = met(&own, &grid, wanted("node")).map_err(|why| format!("{why:?}"));
    let (mut near, mut far, peer, delegated) = came.expect("taken");
    assert_eq!((&peer.subject[..], peer.is_limited), ("/O=Grid/CN=alice", false));
    let token = near.seal(b"NOOP\r\n").expect("TLS");
    assert_eq!(far.open(&token).expect("TLS"), b"NOOP\r\n");
    let token = far.seal(b"200 fine\r\n").expect("TLS");
    assert_eq!(near.open(&token).expect("TLS"), b"200 fine\r\n");
    near.open(&token).expect_err("it came before");
    // What was delegated is alice's, limited, and good no longer than hers.
    let chain = delegated.chain();
    let kinds: Vec<_> =
        chain.iter().map(|one| proxy::kind_of(&one.to_der().expect("DER"))).collect();
    let expected = [ProxyKind::Limited, ProxyKind::Full, ProxyKind::EndEntity];
    assert_eq!(kinds, expected.map(Some));
    assert!(chain[0].not_after() <= chain[1].not_after(), "{:?}", chain[0]);
    // Both ends of a data connection that waits for something to go over it.
    for is_private in [false, true] {
        let (near, far) = (own.data().with(None, is_private), delegated.with(None, is_private));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let stream = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let within = std::time::Duration::from_secs(10);
        let mut near = near.connect_later(stream.expect("it listens"), within);
        let (stream, _) = listener.accept().expect("a connection");
        let sent = std::thread::spawn(move || {
            std::io::Write::write_all(&mut near, b"what follows").and_then(|()| near.finish())
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut far = runtime.expect("a runtime").block_on(async {
            stream.set_nonblocking(true).expect("a socket");
            let mut stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
            let mut handshake = far.accept().expect("TLS");
            handshake.run(&mut stream, &Steps::default()).await.expect("alice's own");
            handshake.over(stream.into_std().expect("a socket")).expect("a socket")
        });
        let mut text = String::new();
        std::io::Read::read_to_string(&mut far, &mut text).expect("all of it");
        assert_eq!(text, "what follows");
        sent.join().expect("no panic").expect("sent");
    }
}

#[test]
fn a_client_talks_to_the_server_that_it_means_and_to_no_other() {
    let grid = Grid::new(true);
    let alice = proxy(&grid.user("alice"), FULL, None, 1);
    let own = user_proxy(&grid, &alice, 0o600).expect("a proxy");
    let refused = |node: &Grid, wanted| match met(&own, node, wanted) {
        Err(Err(distrust)) => distrust,
        other => panic!("{:?}", other.map(|(.., peer, _)| peer)),
    };
    let other = refused(&grid, wanted("127.0.0.1"));
    let why = "its certificate is of /O=Grid/CN=node, not of 127.0.0.1";
    assert_eq!(other, Distrust::Other(why.to_owned()));
    let der = fs::read(grid.folder.path().join("hostcert.pem")).expect("read");
    let der = X509::from_pem(&der).and_then(|one| one.to_der()).expect("DER");
    let own_print = Fingerprint::of(&der.into());
    let pinned = |fingerprint| WantedServer { host: "127.0.0.1".into(), fingerprint };
    met(&own, &grid, pinned(Some(own_print))).map_err(|why| format!("{why:?}")).expect("pinned");
    let other = refused(&grid, pinned(Some("00".repeat(32).parse().expect("a fingerprint"))));
    assert!(matches!(other, Distrust::Other(_)), "{other:?}");
    // A grid that is not this user's has a node of that name too.
    let stranger = refused(&Grid::new(true), wanted("node"));
    assert!(matches!(stranger, Distrust::Unknown(_)), "{stranger:?}");
    // The authority that vouched for it took it back, or may not sign that name any more.
    let hash = format!("{:08x}", grid.authority.chain[0].subject_name_hash());
    let policy = grid.folder.path().join(format!("certificates/{hash}.signing_policy"));
    fs::write(policy, "access_id_CA X509 '/O=Grid/CN=Grid CA'\n").expect("written");
    let Distrust::Unknown(why) = refused(&grid, wanted("node")) else { panic!("it is the node") };
    assert!(why.contains("may not sign that name"), "{why}");
}

#[test]
fn a_proxy_that_is_no_good_is_named_before_anybody_is_asked() {
    let grid = Grid::new(true);
    let alice = grid.user("alice");
    let told = |own: &TestCredential, mode| match user_proxy(&grid, own, mode) {
        Err(error) => {
            assert_eq!(error.code, farline_core::units::ErrorCode::NoProxy, "{error}");
            error.message
        }
        Ok(_) => panic!("it is taken"),
    };
    let good = proxy(&alice, FULL, None, 1);
    assert!(told(&good, 0o640).ends_with("others may read it"));
    assert!(told(&proxy(&alice, FULL, None, -1), 0o600).contains("it expired at "));
    let lost = TestCredential { chain: vec![good.chain[0].clone()], key: good.key.clone() };
    assert!(told(&lost, 0o600).contains("lacks the certificate of the user"));
    assert!(told(&TestCredential { key: key(), ..good }, 0o600).contains("not the key"));
    let absent = GridProxy { file: Some("/nowhere".into()), authorities: None };
    let absent = UserProxy::find(&absent).map(|_| ()).expect_err("there is none");
    assert_eq!(absent.message, "there is no proxy of a grid at /nowhere");
}
