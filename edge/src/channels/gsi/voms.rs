//! VOMS attributes: what the server of a virtual organisation says of its members, in an attribute
//! certificate (RFC 5755) that stands in a proxy. None counts but by the signature of a server that
//! this node knows for that organisation: `vomsdir/VO/*.lsc`, the subjects of the server's
//! certificate and of those above it.

use crate::channels::trust::subject_of_certificate;
use farline_core::gridftp::{AttributeCertificate, attribute_certificates};
use openssl::asn1::Asn1Time;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::sign::Verifier;
use openssl::x509::{X509, X509Name, X509NameRef, X509Ref};
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use x509_parser::der_parser::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How much later than this host's a server's clock may be, in seconds, as VOMS has it.
const SKEW: i64 = 300;
/// Attributes that are read of one proxy.
const MOST: usize = 256;

/// What there is of attributes in a proxy, in DER.
pub(super) fn extension_of(proxy: &[u8]) -> Option<Vec<u8>> {
    let (_, proxy) = X509Certificate::from_der(proxy).ok()?;
    let wanted: Oid<'_> = oid!(1.3.6.1.4.1.8005.100.100.5);
    let found = proxy.extensions().iter().find(|extension| extension.oid == wanted);
    found.map(|extension| extension.value.to_vec())
}

/// The attributes that count of `extension`, such as `/vo/group/Role=writer`, of a proxy of
/// `holder`.
///
/// # Errors
/// In words, why none counts.
pub(super) fn attributes(
    extension: &[u8],
    holder: &X509Ref,
    servers: &Servers<'_>,
) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for one in attribute_certificates(extension)? {
        check(&one, holder, servers)?;
        names.extend(one.names.iter().map(|name| plain(name).to_owned()));
    }
    match names.len() > MOST {
        true => Err(format!("there are more than {MOST}")),
        false => Ok(names),
    }
}

/// An attribute as people write it: without what says that there is nothing.
pub(crate) fn plain(name: &str) -> &str {
    let name = name.strip_suffix("/Capability=NULL").unwrap_or(name);
    name.strip_suffix("/Role=NULL").unwrap_or(name)
}

/// Finds the chain from a certificate, with what lies next to it, to an authority; in words, why
/// there is none.
pub(super) type Vouch<'a> = dyn Fn(&X509, &[X509]) -> Result<Vec<X509>, String> + 'a;

/// Who vouches for servers, and which are known.
pub(super) struct Servers<'a> {
    pub(super) vouched_for: &'a Vouch<'a>,
    /// The folder with one for each organisation.
    pub(super) known: PathBuf,
}

/// # Errors
/// In words, why it does not count.
fn check(
    one: &AttributeCertificate<'_>,
    holder: &X509Ref,
    servers: &Servers<'_>,
) -> Result<(), String> {
    let failed = |error: ErrorStack| error.to_string();
    let serial = holder.serial_number().to_bn().map_err(failed)?;
    let (name, number) = one.holder;
    let is_holder = is_name(name, holder.issuer_name()) || is_name(name, holder.subject_name());
    // Serial numbers are not negative, whatever their first bit says.
    let number = number.strip_prefix(&[0]).unwrap_or(number);
    if !is_holder || serial.to_vec() != number {
        return Err("they are somebody else's".to_owned());
    }
    let now = i64::try_from(crate::sys::clock::since_1970().as_secs()).unwrap_or(i64::MAX);
    let (from, until) = (time(one.from)?, time(one.until)?);
    if from > Asn1Time::from_unix(now.saturating_add(SKEW)).map_err(failed)? {
        return Err(format!("they hold from {} on", &*from));
    }
    if until < Asn1Time::from_unix(now).map_err(failed)? {
        return Err(format!("they held until {}", &*until));
    }
    let certificates: Result<Vec<X509>, _> =
        one.certificates.iter().map(|der| X509::from_der(der)).collect();
    let certificates = certificates.map_err(failed)?;
    let Some((server, above)) = certificates.split_first() else {
        return Err("the server's certificate is not with them".to_owned());
    };
    if !is_name(one.issuer, server.subject_name()) {
        return Err("they are signed by another than they name".to_owned());
    }
    let key = server.public_key().map_err(failed)?;
    let mut verifier = Verifier::new(digest(one.algorithm)?, &key).map_err(failed)?;
    // A signature of another kind of key is as wrong as a wrong one.
    if !verifier.verify_oneshot(one.signature, one.signed).unwrap_or(false) {
        return Err("their signature is wrong".to_owned());
    }
    let chain = (servers.vouched_for)(server, above)?;
    let subjects: Option<Vec<String>> = chain
        .iter()
        .map(|certificate| subject_of_certificate(&certificate.to_der().ok()?))
        .collect();
    let subjects = subjects.ok_or("the server's certificate cannot be read")?;
    for name in &one.names {
        let vo = vo_of(name).ok_or_else(|| format!("`{name}` is no attribute"))?;
        if !is_listed(&servers.known.join(vo), &subjects) {
            let server = subjects.first().map_or("", |subject| subject);
            return Err(format!("{server} is no server of {vo} that is known here"));
        }
    }
    Ok(())
}
fn is_name(der: &[u8], name: &X509NameRef) -> bool {
    let own = X509Name::from_der(der).and_then(|own| own.try_cmp(name));
    own.is_ok_and(|order| order == Ordering::Equal)
}

fn time(text: &[u8]) -> Result<Asn1Time, String> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.ends_with('Z'));
    let time = text.and_then(|text| Asn1Time::from_str(text).ok());
    time.ok_or_else(|| "their times cannot be read".to_owned())
}

/// What a signature's algorithm digests with: none of those that can be forged.
fn digest(algorithm: &[u8]) -> Result<MessageDigest, String> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3];
    let (&last, kind) = algorithm.split_last().ok_or("their signature has no algorithm")?;
    match (kind, last) {
        (RSA, 11) | (ECDSA, 2) => Ok(MessageDigest::sha256()),
        (RSA, 12) | (ECDSA, 3) => Ok(MessageDigest::sha384()),
        (RSA, 13) | (ECDSA, 4) => Ok(MessageDigest::sha512()),
        _ => Err("they are signed in a way that is not taken here".to_owned()),
    }
}

/// The organisation that an attribute is of, if its name is one of a folder.
fn vo_of(name: &str) -> Option<&str> {
    let vo = name.strip_prefix('/')?.split('/').next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_shown = name.bytes().all(|byte| byte.is_ascii_graphic());
    (is_shown && !vo.is_empty() && !vo.starts_with('.') && vo.bytes().all(is_plain)).then_some(vo)
}

/// Whether a file in `folder` lists the beginning of this chain, of a server and of who signed it
/// at least.
fn is_listed(folder: &Path, chain: &[String]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let lists = entries.flatten().map(|entry| entry.path());
    let lists = lists.filter(|path| path.extension().is_some_and(|extension| extension == "lsc"));
    let texts = lists.filter_map(|path| fs::read_to_string(path).ok());
    texts.into_iter().any(|text| {
        text.split("------ NEXT CHAIN ------").any(|listed| {
            let listed: Vec<&str> =
                listed.lines().map(str::trim).filter(|line| line.starts_with('/')).collect();
            listed.len() >= 2 && chain.iter().take(listed.len()).eq(listed.iter())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organisation_is_the_name_of_a_folder_and_no_way_out_of_it() {
        for (name, vo) in [
            ("/vo/group/Role=writer/Capability=NULL", Some("vo")),
            ("/vo.example.org", Some("vo.example.org")),
            ("/../vo", None),
            ("/.hidden", None),
            ("//vo", None),
            ("vo", None),
            ("/vo\u{1b}[0m", None),
            ("/v o", None),
            ("", None),
        ] {
            assert_eq!(vo_of(name), vo, "{name}");
        }
        assert_eq!(plain("/vo/Role=NULL/Capability=NULL"), "/vo");
        assert_eq!(plain("/vo/a/Role=b/Capability=NULL"), "/vo/a/Role=b");
    }

    #[test]
    fn a_server_is_known_by_its_name_and_by_who_signed_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let chain = ["/CN=server", "/CN=CA", "/CN=Root"].map(str::to_owned);
        let is = |text: &str| {
            fs::write(folder.path().join("server.lsc"), text).expect("written");
            is_listed(folder.path(), &chain)
        };
        assert!(is("/CN=server\n/CN=CA\n"));
        assert!(is("/CN=old\n/CN=CA\n------ NEXT CHAIN ------\n  /CN=server\n/CN=CA\n/CN=Root\n"));
        for wrong in ["", "/CN=server\n", "/CN=server\n/CN=other\n", "/CN=CA\n/CN=server\n"] {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is("/CN=server\n/CN=CA\n/CN=Root\n/CN=more\n"));
        fs::rename(folder.path().join("server.lsc"), folder.path().join("x")).expect("renamed");
        assert!(!is_listed(folder.path(), &chain), "of another kind of file");
    }
}
