//! Signing policies: which names an authority of a grid may sign, in the file `HASH.signing_policy`
//! next to its certificate.

/// Whether the file `text` lets `issuer` sign `subject`.
///
/// Of Globus' language (EACL) what sites write is read: `access_id_CA X509 'DN'`, `pos_rights
/// globus CA:sign` and `cond_subjects globus '"PATTERN" ...'`, where `*` in a pattern is any text.
/// Anything else in an entry makes it grant nothing.
pub(super) fn allows(text: &str, issuer: &str, subject: &str) -> bool {
    let (mut is_issuer, mut may_sign) = (false, false);
    for line in text.lines() {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if line.is_empty() {
            continue;
        }
        let (key, rest) = split_word(line);
        let (authority, value) = split_word(rest);
        match (key, authority) {
            ("access_id_CA", "X509") => {
                (is_issuer, may_sign) = (unquoted(value) == issuer, false);
            }
            ("pos_rights", "globus") => may_sign = value == "CA:sign",
            ("cond_subjects", "globus") => {
                if is_issuer && may_sign && patterns(value).any(|pattern| matches(pattern, subject))
                {
                    return true;
                }
            }
            _ => (is_issuer, may_sign) = (false, false),
        }
    }
    false
}

fn split_word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}

/// The patterns of `'"A" "B"'`, or of `'A'`.
fn patterns(value: &str) -> impl Iterator<Item = &str> {
    let inner = unquoted(value);
    let is_list = inner.contains('"');
    let (list, one) = if is_list { (inner, None) } else { ("", Some(inner)) };
    // Every other part stands between quotes.
    one.into_iter().chain(list.split('"').skip(1).step_by(2)).filter(|pattern| !pattern.is_empty())
}

/// Whether `pattern`, in which `*` is any text, is all of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "\
# of the test authority
access_id_CA      X509         '/O=Test/CN=Test CA'
pos_rights        globus        CA:sign
cond_subjects     globus     '\"/O=Test/*\" \"/O=Other/OU=*/CN=x\"'

access_id_CA      X509         '/O=Next/CN=CA'
pos_rights        globus        CA:sign
cond_subjects     globus     '/O=Next/*'
";

    #[test]
    fn an_authority_signs_the_names_of_its_policy_alone() {
        let own = |subject| allows(POLICY, "/O=Test/CN=Test CA", subject);
        assert!(own("/O=Test/CN=alice") && own("/O=Other/OU=a/CN=x"));
        assert!(!own("/O=Tests/CN=alice") && !own("/O=Other/OU=a/CN=y") && !own("/O=Next/CN=bob"));
        assert!(allows(POLICY, "/O=Next/CN=CA", "/O=Next/CN=bob"));
        assert!(!allows(POLICY, "/O=Else/CN=CA", "/O=Test/CN=alice"));
    }

    #[test]
    fn what_is_not_understood_grants_nothing() {
        let ca = "/O=Test/CN=Test CA";
        for wrong in ["", "pos_rights globus CA:sign", "neg_rights globus CA:sign"] {
            let text = format!("access_id_CA X509 '{ca}'\n{wrong}\ncond_subjects globus '\"*\"'\n");
            assert_eq!(allows(&text, ca, "/O=Test/CN=alice"), wrong.starts_with("pos"), "{wrong}");
        }
        let other = format!(
            "access_id_anybody X509 '{ca}'\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'\n"
        );
        assert!(!allows(&other, ca, "/O=Test/CN=alice"));
    }

    #[test]
    fn stars_are_any_text() {
        for (pattern, text, is_so) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "axyc", false),
            ("abc", "abcd", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), is_so, "{pattern} {text}");
        }
    }
}
