//! VOMS attributes as they stand in a proxy: a list of attribute certificates (RFC 5755) in DER,
//! read and not yet believed.

use super::der::{
    BIT_STRING, BOOLEAN, Der, FIRST, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, SET, TIME,
};

/// Of OID 1.3.6.1.4.1.8005.100.100.
const NAMES: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 0x64, 0x64, 4];
const CERTIFICATES: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 0x64, 0x64, 10];
const TAGS: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 0x64, 0x64, 11];
/// 2.5.29: no revocation is to be had; whose key signed; the hosts that alone may take it.
const NO_REVOCATION: &[u8] = &[0x55, 0x1d, 56];
const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 35];
const TARGETS: &[u8] = &[0x55, 0x1d, 55];

/// One attribute certificate; every field is a part of what it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeCertificate<'a> {
    /// What is signed.
    pub signed: &'a [u8],
    /// The OID of the algorithm that signed it.
    pub algorithm: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// Issuer (or subject, as VOMS takes it too) of the holder's certificate, in DER, and its
    /// serial number.
    pub holder: (&'a [u8], &'a [u8]),
    /// The name of who issued it, in DER.
    pub issuer: &'a [u8],
    /// When it begins to hold, as `GeneralizedTime`.
    pub from: &'a [u8],
    /// Until when it holds.
    pub until: &'a [u8],
    /// What it says of its holder: `/vo/group/Role=writer/Capability=NULL`.
    pub names: Vec<&'a str>,
    /// The server's certificate, and those above it, in DER.
    pub certificates: Vec<&'a [u8]>,
    /// Why it may not be taken: a critical extension that is not understood here.
    unknown: Option<&'static str>,
}

/// The attribute certificates in the value of a proxy's extension 1.3.6.1.4.1.8005.100.100.5, in
/// DER.
///
/// # Errors
/// In words, why they cannot be taken: they are none, or one is for certain hosts alone, or has
/// another critical extension that is not understood here (RFC 5755, section 4.3).
pub fn attribute_certificates(value: &[u8]) -> Result<Vec<AttributeCertificate<'_>>, &'static str> {
    let all = read(value).ok_or("they cannot be read")?;
    match all.iter().find_map(|one| one.unknown) {
        Some(why) => Err(why),
        None => Ok(all),
    }
}

fn read(extension: &[u8]) -> Option<Vec<AttributeCertificate<'_>>> {
    let mut outer = Der(extension);
    let mut lists = outer.within(SEQUENCE)?;
    let mut list = lists.within(SEQUENCE)?;
    if !outer.is_empty() || !lists.is_empty() {
        return None;
    }
    let mut all = Vec::new();
    while !list.is_empty() {
        all.push(read_one(list.within(SEQUENCE)?)?);
    }
    Some(all)
}

fn read_one(mut der: Der<'_>) -> Option<AttributeCertificate<'_>> {
    let info = der.take(SEQUENCE)?;
    let algorithm = der.algorithm()?;
    // No bits of its last byte are unused.
    let signature = der.take(BIT_STRING)?.content.strip_prefix(&[0])?;
    let mut rest = Der(info.content);
    let version = rest.take(INTEGER)?.content;
    let mut holder = rest.within(SEQUENCE)?;
    let mut base = holder.within(FIRST)?;
    let held_by = (base.name()?, base.take(INTEGER)?.content);
    let issuer = rest.within(FIRST)?.name()?;
    let is_same = rest.algorithm()? == algorithm;
    rest.take(INTEGER)?;
    let mut validity = rest.within(SEQUENCE)?;
    let (from, until) = (validity.take(TIME)?.content, validity.take(TIME)?.content);
    let names = read_names(rest.within(SEQUENCE)?)?;
    if rest.is(BIT_STRING) {
        rest.next()?;
    }
    let (certificates, unknown) = read_extensions(rest.within(SEQUENCE)?)?;
    let is_all = der.is_empty() && rest.is_empty() && holder.is_empty() && base.is_empty();
    (is_all && is_same && version == [1]).then_some(AttributeCertificate {
        signed: info.whole,
        algorithm,
        signature,
        holder: held_by,
        issuer,
        from,
        until,
        names,
        certificates,
        unknown,
    })
}

/// `SEQUENCE OF { type, SET OF IetfAttrSyntax }`; attributes of other types are nothing here.
fn read_names(mut attributes: Der<'_>) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    while !attributes.is_empty() {
        let mut attribute = attributes.within(SEQUENCE)?;
        if attribute.take(OBJECT)?.content != NAMES {
            continue;
        }
        let mut values = attribute.within(SET)?;
        while !values.is_empty() {
            let mut value = values.within(SEQUENCE)?;
            // The server's own name for itself.
            if value.is(FIRST) {
                value.next()?;
            }
            let mut list = value.within(SEQUENCE)?;
            while !list.is_empty() {
                names.push(std::str::from_utf8(list.take(OCTET_STRING)?.content).ok()?);
            }
        }
    }
    Some(names)
}

/// The certificates among an attribute certificate's extensions, and what is not understood that is
/// to be, such as which hosts alone it is for.
fn read_extensions(mut extensions: Der<'_>) -> Option<(Vec<&[u8]>, Option<&'static str>)> {
    let (mut certificates, mut unknown) = (Vec::new(), None);
    while !extensions.is_empty() {
        let mut extension = extensions.within(SEQUENCE)?;
        let kind = extension.take(OBJECT)?.content;
        let critical = if extension.is(BOOLEAN) { extension.next() } else { None };
        let is_critical = critical.is_some_and(|part| part.content != [0]);
        let mut value = extension.within(OCTET_STRING)?;
        match kind {
            CERTIFICATES => {
                let mut list = value.within(SEQUENCE)?.within(SEQUENCE)?;
                while !list.is_empty() {
                    certificates.push(list.take(SEQUENCE)?.whole);
                }
            }
            NO_REVOCATION | AUTHORITY_KEY | TAGS => {}
            TARGETS if is_critical => {
                unknown = Some("they are for certain hosts alone, which is not understood here");
            }
            _ if is_critical => unknown = Some("a critical extension of them is not known here"),
            _ => {}
        }
    }
    Some((certificates, unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_attributes_are_read_to_their_end() {
        for broken in [
            &[][..],
            &[0x30],
            &[0x30, 0x80],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0x83, 0xff, 0xff, 0xff, 0],
            &[0x30, 2, 0x30, 1],
            &[0x3f, 0x1f, 0],
            &[0x30, 2, 0x30, 0, 0],
        ] {
            assert!(read(broken).is_none(), "{broken:?}");
        }
        assert!(read(&[0x30, 2, 0x30, 0]).is_some_and(|list| list.is_empty()));
        // Every beginning of something long, and every byte of it changed.
        let long: Vec<u8> = [
            &[0x30, 0x14][..],
            &[0x30, 0x12],
            &[0x30, 0x10],
            &[0x30, 0x0e],
            &[0x02, 1, 1],
            &[0; 11],
        ]
        .concat();
        for end in 0..long.len() {
            assert!(read(&long[..end]).is_none());
            for bit in 0..8 {
                let mut other = long.clone();
                other[end] ^= 1 << bit;
                let _ = read(&other);
            }
        }
    }
}
