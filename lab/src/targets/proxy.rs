//! What Farline itself reads of a proxy: its kind, and the attributes that VOMS put into it.

use farline_core::gridftp::{AttributeCertificate, ProxyKind, attribute_certificates};

/// Values of extensions in DER: what is taken is taken whole and as nothing else, all that is read
/// lies in it, and what was put into one comes out.
///
/// # Panics
/// When a law does not hold.
pub fn proxy(value: &[u8]) {
    let cut = value.iter().fold(0, |sum, &byte| sum + usize::from(byte)) % value.len().max(1);
    let longer = [value, &[cut as u8]].concat();
    if let Some(kind) = ProxyKind::of_extension(value) {
        assert_ne!(kind, ProxyKind::EndEntity, "{value:?}");
        assert_eq!(ProxyKind::of_extension(&value[..cut]), None, "{cut} of {value:?}");
        assert_eq!(ProxyKind::of_extension(&longer), None, "{value:?}");
    }
    if let Ok(all) = attribute_certificates(value) {
        assert!(attribute_certificates(&value[..cut]).is_err(), "{cut} of {value:?}");
        assert!(attribute_certificates(&longer).is_err(), "{value:?}");
        // None is shorter than its own parts, and they are parts of different bytes.
        let least: usize = all.iter().map(read).sum();
        assert!(least <= value.len(), "{least} bytes of {value:?}");
    }
    built(value);
}

/// Bytes of a certificate that were read, its names and certificates being within what is signed.
fn read(one: &AttributeCertificate<'_>) -> usize {
    let within =
        |part: &[u8]| one.signed.as_ptr_range().contains(&part.as_ptr()) || part.is_empty();
    let parts = [one.holder.0, one.holder.1, one.issuer, one.from, one.until];
    let names = one.names.iter().map(|name| name.as_bytes());
    let all = parts.into_iter().chain(names).chain(one.certificates.iter().copied());
    let sum: usize = all.inspect(|part| assert!(within(part), "{part:?}")).map(<[u8]>::len).sum();
    assert!(sum <= one.signed.len(), "{one:?}");
    one.signed.len() + one.signature.len()
}

/// Makes an attribute certificate with what `bytes` say, and reads it.
fn built(bytes: &[u8]) {
    let mut parts = bytes.split(|&byte| byte == b';');
    let mut part = || parts.next().unwrap_or_default();
    let (holder, serial, issuer, signature) = (part(), part(), part(), part());
    let (kind, critical) = (part(), part());
    let names: Vec<&[u8]> = parts.collect();
    let name = |text: &[u8]| sequence(&[&value(0xa4, &sequence(&[text]))]);
    let algorithm = sequence(&[&value(6, &[0x2a, 0x86, 0x48])]);
    let list: Vec<u8> = names.iter().flat_map(|name| value(4, name)).collect();
    let names_oid = [0x2b, 6, 1, 4, 1, 0xbe, 0x45, 0x64, 0x64, 4];
    let attribute =
        sequence(&[&value(6, &names_oid), &value(0x31, &sequence(&[&sequence(&[&list])]))]);
    // An extension of any kind, critical or not.
    let is_critical = critical.first().is_some_and(|byte| byte & 1 == 1);
    let flag = if is_critical { value(1, &[0xff]) } else { Vec::new() };
    let extension = sequence(&[&value(6, kind), &flag, &value(4, b"any")]);
    let time = value(0x18, b"20260101000000Z");
    let info = sequence(&[
        &value(2, &[1]),
        &sequence(&[&value(0xa0, &[name(holder), value(2, serial)].concat())]),
        &value(0xa0, &name(issuer)),
        &algorithm,
        &value(2, &[7]),
        &sequence(&[&time, &time]),
        &sequence(&[&attribute]),
        &sequence(&[&extension]),
    ]);
    let signed = value(3, &[&[0], signature].concat());
    let whole = sequence(&[&sequence(&[&sequence(&[&info, &algorithm, &signed])])]);
    let read = attribute_certificates(&whole);
    let is_text = names.iter().all(|name| std::str::from_utf8(name).is_ok());
    // Those that are understood, without a sense that `any` has.
    let known: [&[u8]; 3] =
        [&[0x55, 0x1d, 56], &[0x55, 0x1d, 35], &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 0x64, 0x64, 11]];
    let certificates = [0x2b, 6, 1, 4, 1, 0xbe, 0x45, 0x64, 0x64, 10];
    let is_taken = is_text && kind != certificates && (!is_critical || known.contains(&kind));
    let Ok(read) = read else { return assert!(!is_taken, "{whole:?}") };
    assert!(is_taken, "{whole:?}");
    let [one] = &read[..] else { panic!("one was put in: {read:?}") };
    let got: Vec<&[u8]> = one.names.iter().map(|name| name.as_bytes()).collect();
    assert_eq!((got, one.signature), (names, signature));
    assert_eq!(one.holder, (&sequence(&[holder])[..], serial));
    assert_eq!((one.issuer, one.signed), (&sequence(&[issuer])[..], &info[..]));
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(0x30, &parts.concat())
}

/// One value in DER.
fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let bytes = len.to_be_bytes();
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let head = match len {
        0..=0x7f => vec![tag, len as u8],
        _ => [&[tag, 0x80 | bytes.len() as u8], bytes].concat(),
    };
    [&head, content].concat()
}
