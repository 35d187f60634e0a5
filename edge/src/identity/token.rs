//! Bearer tokens: JSON web tokens (RFC 7519) of known issuers, with the scopes of WLCG's common
//! profile (`storage.read:/path`) or of SciTokens (`read:/path`).

use super::Issuer;
use super::access::{Grant, Permissions};
use super::calendar_rights::CalendarScope;
use super::issuer_keys::{ALGORITHMS, IssuerKeys};
use farline_core::units::percent;
use jsonwebtoken::Validation;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// How far an issuer's clock and this one's may differ, in seconds.
const SKEW: u64 = 60;

/// The audiences of tokens that are for every server, in both profiles.
const ANYBODY: [&str; 2] = ["https://wlcg.cern.ch/jwt/v1/any", "ANY"];

/// What a token lets its bearer do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) subject: String,
    pub(super) grants: Vec<Grant>,
    pub(super) calendar: Option<CalendarScope>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: Option<String>,
    aud: Option<Audience>,
    #[serde(deserialize_with = "numeric_date")]
    exp: u64,
    #[serde(default, deserialize_with = "optional_date")]
    nbf: Option<u64>,
    #[serde(default)]
    scope: String,
    /// What nobody asks for has to be JSON too: without this its strings could be anything.
    #[serde(flatten)]
    _others: BTreeMap<String, Value>,
}

/// Seconds since 1970, in whole numbers or not (RFC 7519, section 2).
fn numeric_date<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let seconds = f64::deserialize(from)?;
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok(seconds as u64),
        false => Err(D::Error::custom(format_args!("{seconds} is no time since 1970"))),
    }
}

fn optional_date<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    numeric_date(from).map(Some)
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn names(&self) -> &[String] {
        match self {
            Audience::One(name) => std::slice::from_ref(name),
            Audience::Several(names) => names,
        }
    }
}

/// The issuer that a token names, before anything of it is believed.
pub(super) fn issuer_of(token: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        iss: String,
    }
    let named = jsonwebtoken::dangerous::insecure_decode::<Named>(token).ok()?;
    Some(named.claims.iss)
}

/// The id of the key that it says it is signed with, before anything of it is believed.
pub(super) fn key_id_of(token: &[u8]) -> Option<String> {
    jsonwebtoken::decode_header(token).ok()?.kid
}

impl Issuer {
    /// Looks at a token; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// In words, why it is not taken.
    pub(super) fn judge(&self, token: &[u8], keys: &str, now: u64) -> Result<Allowed, String> {
        let keys = IssuerKeys::read(keys.as_bytes())
            .map_err(|why| format!("the keys of {} cannot be used: {why}", self.url))?;
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| "this is no token that anybody signed".to_owned())?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(format!("tokens signed by {:?} are not taken", header.alg));
        }
        // RFC 7515, section 4.1.11: nothing is understood here that a header may name so.
        if let Some(critical) = &header.crit {
            let named = critical.join(", ");
            return Err(format!("the token holds for whoever understands `{named}` alone"));
        }
        let key = keys.of(&self.url, header.kid.as_deref(), header.alg)?;
        // Times and audience are judged below, by `now` and in words of use.
        let mut rules = Validation::new(header.alg);
        (rules.validate_exp, rules.validate_aud) = (false, false);
        rules.set_issuer(&[&self.url]);
        rules.set_required_spec_claims(&["exp", "iss"]);
        let token = jsonwebtoken::decode::<Claims>(token, &key, &rules)
            .map_err(|error| format!("the token does not hold: {error}"))?;
        self.allowed(token.claims, now)
    }

    fn allowed(&self, claims: Claims, now: u64) -> Result<Allowed, String> {
        if claims.exp.saturating_add(SKEW) <= now {
            return Err(format!("the token expired {} s ago", now - claims.exp));
        }
        if let Some(from) = claims.nbf.filter(|&from| from > now.saturating_add(SKEW)) {
            return Err(format!("the token holds from {} s on, not yet", from - now));
        }
        let is_for = |name: &String| self.audiences.contains(name) || ANYBODY.contains(&&**name);
        if !claims.aud.as_ref().is_some_and(|audience| audience.names().iter().any(is_for)) {
            return Err(format!("the token is not for this node: {}", self.audiences.join(", ")));
        }
        let grants = claims.scope.split_whitespace().map(|scope| self.grant(scope));
        let grants: Vec<Grant> = grants.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let calendar = claims.scope.split_whitespace().filter_map(CalendarScope::read).max();
        if grants.is_empty() && calendar.is_none() {
            return Err("the token has no scope for storage, such as storage.read:/".to_owned());
        }
        let subject = claims.sub.ok_or_else(|| "the token names nobody".to_owned())?;
        Ok(Allowed { subject, grants, calendar })
    }

    /// What one scope grants; nothing if it is not of storage, and leads nowhere.
    fn grant(&self, scope: &str) -> Result<Option<Grant>, String> {
        let (word, path) =
            scope.split_once(':').map_or((scope, None), |(word, path)| (word, Some(path)));
        let permissions = match word {
            "storage.read" | "read" => Permissions::READ,
            "storage.create" => Permissions::CREATE,
            "storage.modify" | "write" => Permissions { read: false, ..Permissions::WRITE },
            _ => return Ok(None),
        };
        let Some(path) = path else {
            // SciTokens' words mean other things where they stand alone. WLCG's have a path, or
            // their token is none (WLCG Common JWT Profiles 1.0, section "Capability-based
            // Authorization").
            if !word.starts_with("storage.") {
                return Ok(None);
            }
            return Err(format!("the scope {word} names no path, such as {word}:/"));
        };
        let below = decoded(path).map(|path| [self.path.as_bytes(), path.as_slice()].concat());
        Ok(below.map(|below| Grant::new(below, permissions)))
    }
}

/// The path of a scope, each part of which is percent-encoded; nothing for one that does not begin
/// with a slash, or leads elsewhere.
fn decoded(path: &str) -> Option<Vec<u8>> {
    let mut whole = Vec::with_capacity(path.len());
    for part in path.strip_prefix('/')?.split('/') {
        let part = percent::decode(part.as_bytes())?;
        if part == b".." || part.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return None;
        }
        whole.push(b'/');
        whole.extend(part);
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::KeySource;
    use farline_core::gridftp::Pathname;
    use farline_core::units::Rng;
    use jsonwebtoken::{Algorithm, EncodingKey, Header};
    use serde_json::json;
    use std::path::PathBuf;

    const NOW: u64 = 1_700_000_000;

    struct Signer {
        key: EncodingKey,
        keys: String,
    }

    /// An issuer's key pair, of a fresh Ed25519 key.
    fn signer() -> Signer {
        use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
        let document = Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new());
        let document = document.expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key pair");
        let public = base64url(pair.public_key().as_ref());
        let keys = json!({"keys": [
            {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "one", "x": public}
        ]});
        Signer { key: EncodingKey::from_ed_der(document.as_ref()), keys: keys.to_string() }
    }

    fn base64url(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        let bits: Vec<u8> = bits.collect();
        let digit = |six: &[u8]| {
            let value = (0..6).fold(0, |value, i| value << 1 | six.get(i).copied().unwrap_or(0));
            DIGITS[usize::from(value)] as char
        };
        bits.chunks(6).map(digit).collect()
    }

    fn issuer() -> Issuer {
        Issuer {
            url: "https://issuer.example".to_owned(),
            keys: KeySource::File(PathBuf::new()),
            audiences: vec!["https://node.example".to_owned()],
            path: Pathname::new("/vo"),
        }
    }

    fn claims() -> Value {
        json!({
            "iss": "https://issuer.example", "sub": "alice", "aud": "https://node.example",
            "exp": NOW + 600, "nbf": NOW - 10, "wlcg.ver": "1.0",
            "scope": "openid storage.read:/ storage.create:/home/alice compute.create"
        })
    }

    fn token(signer: &Signer, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = claims();
        change(&mut claims);
        let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, &claims, &signer.key).expect("a token")
    }

    #[test]
    fn a_token_grants_its_scopes_below_the_issuers_path() {
        let signer = signer();
        let token = token(&signer, |_| {});
        assert_eq!(issuer_of(token.as_bytes()).as_deref(), Some("https://issuer.example"));
        let allowed = issuer().judge(token.as_bytes(), &signer.keys, NOW).expect("it holds");
        assert_eq!(allowed.subject, "alice");
        let expected = [
            Grant::new("/vo", Permissions::READ),
            Grant::new("/vo/home/alice", Permissions::CREATE),
        ];
        assert_eq!(allowed.grants, expected);
        let spaced = self::token(&signer, |claims| claims["scope"] = json!("read:/my%20run%2525"));
        let allowed = issuer().judge(spaced.as_bytes(), &signer.keys, NOW).expect("it holds");
        assert_eq!(allowed.grants, [Grant::new("/vo/my run%25", Permissions::READ)]);
    }

    #[test]
    fn a_token_that_does_not_hold_is_refused_with_the_reason() {
        let signer = signer();
        type Change = Box<dyn FnOnce(&mut Value)>;
        let cases: Vec<(Change, &str)> = vec![
            (Box::new(|claims| claims["exp"] = json!(NOW - 61)), "expired 61 s ago"),
            (Box::new(|claims| claims["nbf"] = json!(NOW + 100)), "not yet"),
            (
                Box::new(|claims| claims["aud"] = json!("https://other.example")),
                "not for this node",
            ),
            (Box::new(|claims| claims["aud"] = json!([])), "not for this node"),
            (Box::new(|claims| claims["iss"] = json!("https://evil.example")), "does not hold"),
            (Box::new(|claims| claims["scope"] = json!("openid")), "no scope for storage"),
            (Box::new(|claims| claims["scope"] = json!("storage.read:/../x")), "no scope"),
            (Box::new(|claims| claims["scope"] = json!("storage.read:/%2e%2E/x")), "no scope"),
            (Box::new(|claims| claims["scope"] = json!("storage.read:/a%2f..%2fb")), "no scope"),
            (Box::new(|claims| claims["scope"] = json!("storage.read:/a%00")), "no scope"),
            (Box::new(|claims| claims["scope"] = json!("storage.read:/%zz")), "no scope"),
            (
                Box::new(|claims| claims["scope"] = json!("storage.read:/ storage.modify")),
                "storage.modify names no path",
            ),
            (Box::new(|claims| claims["scope"] = json!("read write")), "no scope"),
            (Box::new(|claims| claims["sub"] = json!(null)), "names nobody"),
        ];
        for (change, why) in cases {
            let token = token(&signer, change);
            let refused = issuer().judge(token.as_bytes(), &signer.keys, NOW);
            let refused = refused.expect_err(why);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        for late in [0, 59] {
            let token = token(&signer, |claims| claims["exp"] = json!(NOW - late));
            let judged = issuer().judge(token.as_bytes(), &signer.keys, NOW);
            assert!(judged.is_ok(), "clocks may differ by a minute: {late}");
        }
    }

    #[test]
    fn keys_that_nobody_here_knows_cost_the_others_nothing() {
        let signer = signer();
        let mut set: Value = serde_json::from_str(&signer.keys).expect("a set");
        let all = set["keys"].as_array_mut().expect("keys");
        all.insert(0, json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "one", "pub": "AA"}));
        all.insert(0, json!({"kty": "OKP", "crv": "Ed25519", "kid": 7, "x": "AA"}));
        let whole = token(&signer, |_| {});
        let judged = issuer().judge(whole.as_bytes(), &set.to_string(), NOW);
        assert!(judged.is_ok(), "{judged:?}");
        let header = Header::new(Algorithm::EdDSA);
        let unnamed = jsonwebtoken::encode(&header, &claims(), &signer.key).expect("a token");
        let judged = issuer().judge(unnamed.as_bytes(), &set.to_string(), NOW);
        assert!(judged.is_ok(), "the only one that it may be signed with: {judged:?}");
        set["keys"].as_array_mut().expect("keys").truncate(2);
        let refused = issuer().judge(whole.as_bytes(), &set.to_string(), NOW).expect_err("none");
        let why = "the keys of https://issuer.example cannot be used: none of its keys, 2 in all";
        assert!(refused.starts_with(why), "{refused}");
    }

    #[test]
    fn nobody_else_can_sign() {
        let (signer, other) = (signer(), self::signer());
        let forged = token(&other, |_| {});
        let refused = issuer().judge(forged.as_bytes(), &signer.keys, NOW).expect_err("forged");
        assert!(refused.contains("does not hold"), "{refused}");
        // The public key as a shared secret: the confusion of algorithms.
        let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
        let secret = EncodingKey::from_secret(signer.keys.as_bytes());
        let confused = jsonwebtoken::encode(&header, &claims(), &secret).expect("a token");
        let refused = issuer().judge(confused.as_bytes(), &signer.keys, NOW).expect_err("HS256");
        assert!(refused.contains("HS256"), "{refused}");
        let none = format!(
            "{}.{}.",
            base64url(br#"{"alg":"none","kid":"one"}"#),
            base64url(claims().to_string().as_bytes())
        );
        assert!(issuer().judge(none.as_bytes(), &signer.keys, NOW).is_err(), "none");
        let header = Header { kid: Some("two".to_owned()), ..Header::new(Algorithm::EdDSA) };
        let unknown = jsonwebtoken::encode(&header, &claims(), &signer.key).expect("a token");
        let refused = issuer().judge(unknown.as_bytes(), &signer.keys, NOW).expect_err("two");
        assert!(refused.contains("no key of that id"), "{refused}");
        for broken in ["", ".", "..", "a.b.c", "\u{ff}"] {
            assert!(issuer().judge(broken.as_bytes(), &signer.keys, NOW).is_err(), "{broken}");
            assert_eq!(issuer_of(broken.as_bytes()), None);
        }
    }

    #[test]
    fn what_a_token_calls_critical_is_not_ignored() {
        let signer = signer();
        for (crit, is_taken) in [(None, true), (Some(vec!["b64".to_owned()]), false)] {
            let header =
                Header { kid: Some("one".to_owned()), crit, ..Header::new(Algorithm::EdDSA) };
            let token = jsonwebtoken::encode(&header, &claims(), &signer.key).expect("a token");
            let judged = issuer().judge(token.as_bytes(), &signer.keys, NOW);
            assert_eq!(judged.is_ok(), is_taken, "{judged:?}");
            assert!(is_taken || judged.is_err_and(|why| why.contains("`b64`")));
        }
    }

    /// `text` with a few bytes replaced, taken away or repeated.
    fn damaged(text: &[u8], rng: &mut Rng) -> Vec<u8> {
        let mut text = text.to_vec();
        for _ in 0..=rng.below(3) {
            let at = rng.below(text.len() as u64) as usize;
            match rng.below(4) {
                0 => text[at] = rng.below(256) as u8,
                1 => text.truncate(at.max(1)),
                2 => drop(text.remove(at)),
                _ => text.insert(at, text[at]),
            }
        }
        text
    }

    #[test]
    fn a_damaged_token_is_never_taken() {
        let (signer, issuer, mut rng) = (signer(), issuer(), Rng::new(20));
        let whole = token(&signer, |_| {});
        for _ in 0..4_000 {
            let (token, keys) = match rng.below(4) {
                0 => (whole.clone().into_bytes(), damaged(signer.keys.as_bytes(), &mut rng)),
                _ => (damaged(whole.as_bytes(), &mut rng), signer.keys.clone().into_bytes()),
            };
            let (_, _) = (issuer_of(&token), key_id_of(&token));
            let is_whole = token == whole.as_bytes();
            let judged = issuer.judge(&token, &String::from_utf8_lossy(&keys), NOW);
            let shown = String::from_utf8_lossy(&token);
            assert!(judged.is_err() || is_whole, "{shown}");
        }
    }
}
