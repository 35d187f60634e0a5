//! The keys of an issuer's set that can check tokens here. What is not understood of a set is
//! passed over (RFC 7517, section 5): issuers announce keys of kinds that not everybody knows yet.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Signatures that are taken: those of key pairs. With a shared secret whoever can check tokens can
/// make them, and `none` proves nothing.
pub(super) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
];

/// Those of a set, a JSON text, that are of use.
#[derive(Debug)]
pub(super) struct IssuerKeys(Vec<Jwk>);

impl IssuerKeys {
    /// # Errors
    /// In words, when the text is no set, or nothing in it is of use.
    pub(super) fn read(text: &[u8]) -> Result<IssuerKeys, String> {
        #[derive(Deserialize)]
        struct JsonWebKeySet {
            keys: Vec<Value>,
        }
        let JsonWebKeySet { keys } =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let count = keys.len();
        let known = keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let usable: Vec<Jwk> = known.filter(is_usable).collect();
        match (usable.is_empty(), count) {
            (false, _) => Ok(IssuerKeys(usable)),
            (true, 0) => Err("there are no keys".to_owned()),
            (true, _) => Err(format!(
                "none of its keys, {count} in all, checks signatures here: RSA, EC (P-256, P-384) \
                 and Ed25519 do"
            )),
        }
    }

    /// Whether one of them has this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| is_called(key, id))
    }

    /// The one that a token is signed with whose header names this id and algorithm. One that names
    /// no id is signed with the only key that makes such signatures.
    ///
    /// # Errors
    /// In words, of `issuer`, when there is none, or nobody can say which.
    pub(super) fn of(
        &self,
        issuer: &str,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, String> {
        let named = |key: &&Jwk| id.is_none_or(|id| is_called(key, id));
        let mut of_id = self.0.iter().filter(named).peekable();
        if of_id.peek().is_none() {
            return Err(format!("{issuer} has no key of that id"));
        }
        let mut fitting = of_id.filter(|key| fits(key, algorithm));
        let Some(key) = fitting.next() else {
            return Err("the token is not signed as its key says".to_owned());
        };
        if id.is_none() && fitting.next().is_some() {
            return Err(format!("the token names no key, and {issuer} has several"));
        }
        DecodingKey::from_jwk(key).map_err(|error| format!("a key of {issuer} is none: {error}"))
    }
}

fn is_called(key: &Jwk, id: &str) -> bool {
    key.common.key_id.as_deref() == Some(id)
}

/// Whether it makes signatures that are taken, and is to be used for that.
fn is_usable(key: &Jwk) -> bool {
    key.common.public_key_use != Some(PublicKeyUse::Encryption)
        && ALGORITHMS.iter().any(|&algorithm| fits(key, algorithm))
        && DecodingKey::from_jwk(key).is_ok()
}

/// Whether it makes such signatures: by its kind, and by what it says of itself.
fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512};
    let by_kind = match (&key.algorithm, algorithm) {
        (AlgorithmParameters::EllipticCurve(of), ES256) => of.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(of), ES384) => of.curve == EllipticCurve::P384,
        (AlgorithmParameters::OctetKeyPair(of), EdDSA) => of.curve == EllipticCurve::Ed25519,
        (AlgorithmParameters::RSA(_), other) => {
            !matches!(other, ES256 | ES384 | EdDSA | HS256 | HS384 | HS512)
        }
        _ => false,
    };
    by_kind && key.common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(algorithm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An Ed25519 key; what it signs nobody checks here.
    fn ed25519(id: Option<&str>, algorithm: Option<&str>) -> Value {
        let mut key = json!({"kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43)});
        if let Some(id) = id {
            key["kid"] = json!(id);
        }
        if let Some(algorithm) = algorithm {
            key["alg"] = json!(algorithm);
        }
        key
    }

    /// Keys of kinds that are not of use here, or are none.
    fn others() -> Vec<Value> {
        vec![
            json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "quantum", "pub": "AA"}),
            json!({"kty": "OKP", "crv": "X25519", "kid": "agreement", "x": "AA"}),
            json!({"kty": "EC", "crv": "secp256k1", "kid": "coin", "x": "AA", "y": "AA"}),
            json!({"kty": "EC", "crv": "P-521", "kid": "long", "x": "AA", "y": "AA"}),
            json!({"kty": "RSA", "kid": "half", "n": "AA"}),
            json!({"kty": "RSA", "kid": "broken", "n": "?", "e": "AQAB"}),
            json!({"kty": "RSA", "use": "enc", "kid": "encrypts", "n": "AQAB", "e": "AQAB"}),
            json!({"kty": "RSA", "alg": "RSA-OAEP", "kid": "wraps", "n": "AQAB", "e": "AQAB"}),
            json!({"kty": "oct", "alg": "HS256", "kid": "secret", "k": "AA"}),
            json!({"kty": "OKP", "crv": "Ed25519", "kid": 7, "x": "AA"}),
            ed25519(Some("odd"), Some("XX999")),
            json!({}),
            json!("no key"),
        ]
    }

    fn read(keys: Vec<Value>) -> Result<IssuerKeys, String> {
        IssuerKeys::read(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn a_key_that_is_not_understood_is_passed_over() {
        let eddsa = Algorithm::EdDSA;
        for other in others() {
            let own = ed25519(Some("one"), Some("EdDSA"));
            let keys =
                read(vec![other.clone(), own]).unwrap_or_else(|why| panic!("{other}: {why}"));
            assert_eq!(keys.0.len(), 1, "{other}");
            assert!(keys.has("one") && keys.of("x", Some("one"), eddsa).is_ok(), "{other}");
            // The only one that is left.
            assert!(keys.of("x", None, eddsa).is_ok(), "{other}");
            let refused = keys.of("x", other["kid"].as_str().or(Some("?")), eddsa).err();
            assert_eq!(refused.as_deref(), Some("x has no key of that id"), "{other}");
        }
    }

    #[test]
    fn a_key_without_an_id_is_for_tokens_that_name_none() {
        let eddsa = Algorithm::EdDSA;
        let keys = read(vec![ed25519(None, None)]).expect("one");
        assert!(keys.of("x", None, eddsa).is_ok() && keys.of("x", Some("one"), eddsa).is_err());
        let refused = keys.of("x", None, Algorithm::ES256).expect_err("another algorithm");
        assert!(refused.contains("not signed as its key says"), "{refused}");
        let keys = read(vec![ed25519(None, None), ed25519(Some("one"), None)]).expect("two");
        assert!(keys.of("x", Some("one"), eddsa).is_ok());
        let refused = keys.of("x", None, eddsa).expect_err("nobody can say which");
        assert!(refused.contains("names no key, and x has several"), "{refused}");
        // One of another kind is none of those.
        let rsa = json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"});
        assert!(read(vec![rsa, ed25519(None, None)]).expect("two").of("x", None, eddsa).is_ok());
    }

    #[test]
    fn a_set_without_a_key_of_use_is_one_clear_error() {
        let count = others().len();
        let refused = read(others()).expect_err("none is of use");
        let expected = format!("none of its keys, {count} in all, checks signatures here");
        assert!(refused.starts_with(&expected), "{refused}");
        assert_eq!(read(Vec::new()).expect_err("none"), "there are no keys");
        for text in ["", "[]", "{}", "{\"keys\": {}}"] {
            assert!(IssuerKeys::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
