//! What the fuzzers feed to the readers of bearer tokens, of issuers' keys and of where those are:
//! laws, not just "no panic". Next to `targets`, which take the core alone and build in a moment:
//! these readers are the library's.

use farline::identity::readers::{claimed, judged, kept_for, place_of_keys};
use farline::identity::{Grant, Issuer, IssuerFile, Permissions};
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Signs nothing but what is put in here.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIG4Le9li4lZ11iT6s9VPymFeCVBoOq3idsVJkFoioOtd\n\
    -----END PRIVATE KEY-----\n";
/// Its public half.
const PUBLIC: &str = "qpVJ67dFD1I3VXDiaomCP1AdMOVGNiCSDVmSnoZU7_s";
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "https://node.example";
/// Now, in seconds since 1970, and how far clocks may differ.
const NOW: u64 = 1_700_000_000;
const SKEW: u64 = 60;

static PAIR: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::from_pem(KEY).expect("a key"));
static KNOWN: LazyLock<Issuer> = LazyLock::new(|| {
    let file = json!({"url": ISSUER, "audiences": [AUDIENCE], "path": "/vo"});
    let file: IssuerFile = serde_json::from_value(file).expect("as in a file");
    file.build().expect("it makes sense").issuer
});
static KEYS: LazyLock<String> = LazyLock::new(|| {
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "k", "x": PUBLIC}]})
        .to_string()
});

/// Five lines: a token as it comes, header and claims of one that is signed here, a set of keys,
/// and a discovery document, with what the server says of keeping it behind a TAB.
///
/// # Panics
/// When a law does not hold.
pub fn bearer(bytes: &[u8]) {
    let mut parts = bytes.splitn(5, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (token, header, claims, keys, document) = (part(), part(), part(), part(), part());
    as_it_comes(token);
    signed_here(header, claims);
    by_keys(keys);
    discovered(document);
    built(bytes);
}

/// What is taken is what the issuer signed, to the last bit.
fn as_it_comes(token: &[u8]) {
    let (issuer, _) = claimed(token);
    if judged(&KNOWN, token, &KEYS, NOW).is_ok() {
        assert_eq!(issuer.as_deref(), Some(ISSUER), "{}", shown(token));
        let end = token.iter().rposition(|byte| *byte == b'.').expect("three parts");
        assert!(sealed(&token[..end]) == token, "{}", shown(token));
    }
}

/// Whatever its issuer signs: what is taken says all that it has to.
fn signed_here(header: &[u8], claims: &[u8]) {
    let token = signed(header, claims);
    let _ = claimed(&token);
    let Ok((subject, grants)) = judged(&KNOWN, &token, &KEYS, NOW) else { return };
    let read = |part: &[u8]| serde_json::from_slice::<Value>(part).expect("it was read");
    let (header, claims) = (read(header), read(claims));
    assert!(header["alg"] == "EdDSA" && (header["kid"] == "k" || header["kid"].is_null()));
    // RFC 7515, section 4.1.11: what has to be understood and is not.
    assert!(header["crit"].is_null(), "{header}");
    let names = |value: &Value, name: &str| {
        value == name || value.as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    assert!(names(&claims["iss"], ISSUER), "{claims}");
    let audiences = [AUDIENCE, "ANY", "https://wlcg.cern.ch/jwt/v1/any"];
    assert!(audiences.iter().any(|name| names(&claims["aud"], name)), "{claims}");
    assert!(claims["exp"].as_f64().is_some_and(|exp| exp + SKEW as f64 > NOW as f64), "{claims}");
    let from = claims["nbf"].as_f64().unwrap_or(0.0);
    assert!(from < (NOW + SKEW + 1) as f64, "{claims}");
    assert_eq!(claims["sub"], *subject, "{claims}");
    let scope = claims["scope"].as_str().unwrap_or_default();
    assert!(grants.len() <= scope.split_whitespace().count(), "{claims}: {grants:?}");
    for grant in grants {
        let below = format!("{grant:?}");
        assert!(below.contains("\"/vo\"") || below.contains("\"/vo/"), "{claims}: {below}");
    }
}

/// Tokens that say what one has to, signed once: whatever a set of keys has, they are the same.
static TOKENS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let claims = json!({"iss": ISSUER, "sub": "a", "aud": AUDIENCE, "exp": NOW, "scope": "read:/"});
    [r#"{"alg":"EdDSA","kid":"k"}"#, r#"{"alg":"EdDSA"}"#]
        .map(|header| signed(header.as_bytes(), claims.to_string().as_bytes()))
});

/// Without the issuer's public key in a set nothing is its word.
fn by_keys(keys: &[u8]) {
    let keys = String::from_utf8_lossy(keys);
    for token in TOKENS.iter() {
        if judged(&KNOWN, token, &keys, NOW).is_ok() {
            let set: Value = serde_json::from_str(&keys).expect("it was read");
            let all = set["keys"].as_array().expect("keys");
            assert!(all.iter().any(|key| key["x"] == PUBLIC), "{keys}");
        }
    }
}

/// A document is of the issuer that it names, and of no other; nothing is kept for ever.
fn discovered(document: &[u8]) {
    let (document, control) = match document.iter().position(|byte| *byte == b'\t') {
        Some(at) => (&document[..at], &document[at + 1..]),
        None => (document, &b""[..]),
    };
    if let Ok(place) = place_of_keys(ISSUER, document) {
        let read: Value = serde_json::from_slice(document).expect("it was read");
        assert!(read["issuer"] == ISSUER && read["jwks_uri"] == *place, "{read}");
    }
    let control = String::from_utf8_lossy(control);
    if let Some(seconds) = kept_for(&control) {
        let says = control.to_ascii_lowercase();
        let is_kept = seconds > 0 && says.contains("max-age");
        assert!(is_kept || seconds == 0, "{control}: {seconds}");
        assert!(!(is_kept && says.split(',').any(|word| word.trim() == "no-store")), "{control}");
    }
}

/// A token made of what `bytes` say: taken when it holds now, and grants exactly what was put in.
fn built(bytes: &[u8]) {
    let byte = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
    let (late, early) = (byte(0), byte(1));
    let (exp, nbf) = (NOW + 128 - late, NOW - 128 + early);
    let subject = String::from_utf8_lossy(bytes);
    const WORDS: [(&str, Option<Permissions>); 5] = [
        ("storage.read", Some(Permissions::READ)),
        ("storage.create", Some(Permissions::CREATE)),
        ("storage.modify", Some(Permissions { read: false, create: true, modify: true })),
        ("read", Some(Permissions::READ)),
        ("compute.read", None),
    ];
    let mut scopes = Vec::new();
    let mut expected = Vec::new();
    for name in bytes.get(2..).unwrap_or_default().chunks(3).take(8) {
        let (word, permissions) = WORDS[usize::from(name[0]) % WORDS.len()];
        let path: String = name.iter().map(|byte| char::from(b'.' + byte % 3)).collect();
        scopes.push(format!("{word}:/{path}"));
        let leads_up = path.split('/').any(|part| part == "..");
        let granted = permissions.filter(|_| !leads_up);
        expected.extend(granted.map(|may| Grant::new(format!("/vo/{path}"), may)));
    }
    let claims = json!({
        "iss": ISSUER, "sub": subject, "aud": [AUDIENCE], "exp": exp, "nbf": nbf,
        "scope": scopes.join(" ")
    });
    let token = signed(br#"{"alg":"EdDSA","kid":"k"}"#, claims.to_string().as_bytes());
    assert_eq!(claimed(&token), (Some(ISSUER.to_owned()), Some("k".to_owned())));
    let holds = exp + SKEW > NOW && nbf <= NOW + SKEW && !expected.is_empty();
    match judged(&KNOWN, &token, &KEYS, NOW) {
        Ok(taken) => assert!(holds && taken == (subject.into_owned(), expected), "{claims}"),
        Err(why) => assert!(!holds, "{why}: {claims}"),
    }
}

fn signed(header: &[u8], claims: &[u8]) -> Vec<u8> {
    sealed(format!("{}.{}", base64url(header), base64url(claims)).as_bytes())
}

/// With the signature behind it, of which Ed25519 has one.
fn sealed(said: &[u8]) -> Vec<u8> {
    let signature = PAIR.sign(said).expect("it signs");
    [said, b".", base64url(&signature).as_bytes()].concat()
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
