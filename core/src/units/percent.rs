//! Percent-encoding (RFC 3986, section 2.1) of bytes that a line or a URL cannot hold.

/// Appends `bytes` to `text`, each that is not `plain` as `%` and two hexadecimal digits. `%`
/// itself never is.
pub fn encode(bytes: &[u8], plain: impl Fn(u8) -> bool, text: &mut Vec<u8>) {
    for &byte in bytes {
        match byte != b'%' && plain(byte) {
            true => text.push(byte),
            false => text.extend(format!("%{byte:02X}").bytes()),
        }
    }
}

/// The bytes that `text` stands for, or nothing when a `%` is not followed by two hexadecimal
/// digits.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_percent_sign_is_never_plain_and_a_lone_one_is_no_text() {
        let mut text = Vec::new();
        encode(b"5% a", |_| true, &mut text);
        assert_eq!(text, b"5%25 a");
        for wrong in [&b"%"[..], b"a%4", b"%zz"] {
            assert_eq!(decode(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..40), least in any::<u8>()) {
            let mut text = Vec::new();
            encode(&bytes, |byte| byte >= least, &mut text);
            prop_assert_eq!(decode(&text), Some(bytes));
        }
    }
}
