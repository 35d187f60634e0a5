//! Grid-mapfiles: which certificates' subjects are which local names, a line each.

/// The names that `text` gives `subject`: `"/O=Site/CN=alice" alice,guest`.
///
/// Attributes that Globus knows by several names (`emailAddress`, `Email`, `E`; `UID`, `USERID`) are the same.
pub(super) fn names(text: &str, subject: &str) -> Vec<String> {
    let subject = normal(subject);
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let Some((quoted, names)) = line.strip_prefix('"').and_then(|rest| rest.split_once('"'))
        else {
            continue;
        };
        if normal(quoted) == subject {
            let names = names.split_whitespace().next().unwrap_or_default().split(',');
            found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    found
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
        let text = "# who is who\n\"/O=Site/CN=alice\" alice,guest\n \"/O=Site/CN=bob\"  bob  \n\
                    /O=Site/CN=eve eve\n\"/O=Site/CN=alice\" second\n\"/O=Site/CN=nobody\"\n\
                    \"/O=Site/CN=x/emailAddress=x@site\" x\n";
        assert_eq!(names(text, "/O=Site/CN=alice"), ["alice", "guest", "second"]);
        assert_eq!(names(text, "/O=Site/CN=bob"), ["bob"]);
        assert_eq!(names(text, "/O=Site/CN=x/Email=x@site"), ["x"]);
        for nobody in
            ["/O=Site/CN=eve", "/O=Site/CN=nobody", "/O=Site", "", "/O=Site/CN=alice/CN=x"]
        {
            assert!(names(text, nobody).is_empty(), "{nobody}");
        }
    }
}
