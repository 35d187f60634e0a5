//! What kind of certificate one is: a person's, or a proxy that speaks for somebody (RFC 3820).

use super::der::{Der, INTEGER, OBJECT, OCTET_STRING, SEQUENCE};

/// Policy languages: all that the issuer may (1.3.6.1.5.5.7.21.1), and Globus' own
/// (1.3.6.1.4.1.3536.1.1.1.9).
const INHERIT_ALL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
const LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

/// A certificate's place in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// No proxy: an end entity certificate (RFC 3820).
    EndEntity,
    /// A proxy with all that its issuer may.
    Full,
    /// A proxy that may move files and start nothing: Globus' own language of policies.
    Limited,
    /// A proxy with rights of its own, or by a policy that is not understood here: it has none of
    /// its issuer's.
    Restricted,
}

impl ProxyKind {
    /// That of a certificate whose extension 1.3.6.1.5.5.7.1.14 has this value in DER; `None` when
    /// it cannot be read.
    pub fn of_extension(value: &[u8]) -> Option<ProxyKind> {
        // ProxyCertInfo ::= SEQUENCE { pCPathLenConstraint INTEGER OPTIONAL, proxyPolicy SEQUENCE {
        // policyLanguage OBJECT IDENTIFIER, policy OCTET STRING OPTIONAL } }
        let mut outer = Der(value);
        let mut info = outer.within(SEQUENCE)?;
        if info.is(INTEGER) {
            info.next()?;
        }
        let mut policy = info.within(SEQUENCE)?;
        let language = policy.take(OBJECT)?.content;
        if policy.is(OCTET_STRING) {
            policy.next()?;
        }
        let is_all = outer.is_empty() && info.is_empty() && policy.is_empty();
        is_all.then_some(match language {
            INHERIT_ALL => ProxyKind::Full,
            LIMITED => ProxyKind::Limited,
            _ => ProxyKind::Restricted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_a_policy_says_what_a_proxy_is() {
        let info = |length: &[u8], language: &[u8], rest: &[u8]| {
            let policy = [&[6, language.len() as u8], language, rest].concat();
            let policy = [&[0x30, policy.len() as u8], &policy[..]].concat();
            [&[0x30, (length.len() + policy.len()) as u8], length, &policy].concat()
        };
        let kind = |value: &[u8]| ProxyKind::of_extension(value);
        let independent: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
        assert_eq!(kind(&info(&[], INHERIT_ALL, &[])), Some(ProxyKind::Full));
        assert_eq!(kind(&info(&[2, 1, 3], LIMITED, &[])), Some(ProxyKind::Limited));
        assert_eq!(kind(&info(&[], independent, &[4, 1, 7])), Some(ProxyKind::Restricted));
        let good = info(&[2, 1, 3], INHERIT_ALL, &[]);
        for end in 0..good.len() {
            assert_eq!(kind(&good[..end]), None);
        }
        for more in [&[&good[..], &[0]].concat(), &info(&[], INHERIT_ALL, &[5, 0])] {
            assert_eq!(kind(more), None, "{more:?}");
        }
    }
}
