//! Grid-mapfiles: which certificates' subjects are which local names, a line each.

/// The names that `text` gives `subject`, in order: `"/O=Site/CN=alice" alice,guest`. A subject
/// without spaces needs no quotes; in quotes a backslash takes the next letter as it is. Lines that
/// are no UTF-8 are of nobody.
///
/// Attributes that Globus knows by several names (`emailAddress`, `Email`, `E`; `UID`, `USERID`)
/// are the same.
pub(super) fn names(text: &[u8], subject: &str) -> Vec<String> {
    let subject = normal(subject);
    let mut found = Vec::new();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for line in text.split(|&byte| byte == b'\n').filter_map(|line| str::from_utf8(line).ok()) {
        let Some((mapped, names)) = parted(line.trim()) else { continue };
        if normal(&mapped) == subject {
            let names = names.split_whitespace().next().unwrap_or_default().split(',');
            found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    found
}

/// The subject of a line, and what stands behind it.
fn parted(line: &str) -> Option<(String, &str)> {
    let Some(quoted) = line.strip_prefix('"') else {
        let (subject, names) = line.split_once(char::is_whitespace)?;
        return subject.starts_with('/').then(|| (subject.to_owned(), names));
    };
    let (mut subject, mut is_escaped) = (String::new(), false);
    for (at, letter) in quoted.char_indices() {
        match letter {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return Some((subject, &quoted[at + 1..])),
            letter => {
                is_escaped = false;
                subject.push(letter);
            }
        }
    }
    None
}

/// A subject with each attribute under one name.
fn normal(subject: &str) -> String {
    let attributes = subject.split('/').map(|attribute| match attribute.split_once('=') {
        Some(("emailAddress" | "Email" | "EMAIL" | "E" | "e", value)) => format!("Email={value}"),
        Some(("USERID" | "UserID" | "UID", value)) => format!("UID={value}"),
        _ => attribute.to_owned(),
    });
    attributes.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_the_names_of_its_lines() {
        let text = b"\xef\xbb\xbf# who is who, M\xfcller\n\"/O=Site/CN=alice\" alice,guest\n \"/O=Site/CN=bob\"  bob  \n\
                    /O=Site/CN=eve eve\n\"/O=Site/CN=alice\" second\n\"/O=Site/CN=nobody\"\n\
                    \"/O=Site/CN=x/emailAddress=x@site\" x\n\"/O=Site/CN=the \\\"one\\\"\" one\r\n\
                    \"/O=Site/CN=open open\n/O=Site/CN=alone\n";
        assert_eq!(names(text, "/O=Site/CN=alice"), ["alice", "guest", "second"]);
        assert_eq!(names(text, "/O=Site/CN=bob"), ["bob"]);
        assert_eq!(names(text, "/O=Site/CN=x/Email=x@site"), ["x"]);
        assert_eq!(names(text, "/O=Site/CN=eve"), ["eve"]);
        assert_eq!(names(text, "/O=Site/CN=the \"one\""), ["one"]);
        let others = ["/O=Site/CN=open", "/O=Site/CN=alone", "/O=Site/CN=alice/CN=x"];
        for nobody in others.into_iter().chain(["/O=Site/CN=nobody", "/O=Site", ""]) {
            assert!(names(text, nobody).is_empty(), "{nobody}");
        }
    }
}
