//! Signs a proxy for a key of the server's (RFC 3820): a limited one, which moves files and starts
//! nothing.

use super::credential::Credential;
use openssl::asn1::{Asn1Integer, Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::{BigNum, MsbOption};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{Id, PKey, Public};
use openssl::x509::extension::KeyUsage;
use openssl::x509::{X509, X509Extension, X509Name, X509Req};

/// How much earlier than now a proxy begins, for clocks that are behind, in seconds: as Globus has
/// it.
const CLOCK_SKEW: i64 = 300;
/// `ProxyCertInfo` in DER, of no more than Globus' language of limited proxies,
/// 1.3.6.1.4.1.3536.1.1.1.9.
const LIMITED: &[u8] = &[0x30, 15, 0x30, 13, 6, 11, 0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

/// The certificate that `request` asks for, signed with `own`, in DER. The chain does not follow
/// it: servers know it since the handshake, and Globus' take what follows for a command.
///
/// # Errors
/// In words, when the request is none.
pub(super) fn delegated(own: &Credential, request: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = |error: ErrorStack| format!("what it asks to be signed is no request: {error}");
    let request = X509Req::from_der(request).map_err(wrong)?;
    let public = request.public_key().map_err(wrong)?;
    if !request.verify(&public).map_err(wrong)? {
        return Err("what it asks to be signed is not signed by its own key".to_owned());
    }
    let failed = |error: ErrorStack| format!("a proxy cannot be signed: {error}");
    let proxy = signed(own, &public).map_err(failed)?;
    proxy.to_der().map_err(failed)
}

fn signed(own: &Credential, public: &PKey<Public>) -> Result<X509, ErrorStack> {
    let mut serial = BigNum::new()?;
    serial.rand(63, MsbOption::ONE, false)?;
    let issuer = own.first();
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&*Asn1Integer::from_bn(&serial)?)?;
    // RFC 3820, section 3.4: the issuer's name, and a common name that it gave nobody else.
    let mut subject = X509Name::builder()?;
    for entry in issuer.subject_name().entries() {
        subject.append_entry(entry)?;
    }
    subject.append_entry_by_text("CN", &serial.to_dec_str()?)?;
    builder.set_subject_name(&subject.build())?;
    builder.set_issuer_name(issuer.subject_name())?;
    let now = crate::sys::clock::since_1970().as_secs();
    let begins = Asn1Time::from_unix(i64::try_from(now).unwrap_or(i64::MAX) - CLOCK_SKEW)?;
    match begins < *issuer.not_before() {
        true => builder.set_not_before(issuer.not_before())?,
        false => builder.set_not_before(&begins)?,
    }
    builder.set_not_after(own.ends())?;
    builder.set_pubkey(public)?;
    let info = Asn1OctetString::new_from_bytes(LIMITED)?;
    let oid = Asn1Object::from_str("1.3.6.1.5.5.7.1.14")?;
    builder.append_extension(X509Extension::new_from_der(&oid, true, &info)?)?;
    let mut usage = KeyUsage::new();
    usage.critical().digital_signature();
    if public.id() == Id::RSA {
        usage.key_encipherment();
    }
    builder.append_extension(usage.build()?)?;
    builder.sign(own.key(), MessageDigest::sha256())?;
    Ok(builder.build())
}
