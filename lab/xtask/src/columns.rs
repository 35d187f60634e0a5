//! Comments are as wide as rustfmt leaves code, 100 columns: it does not wrap them itself.

/// As `max_width` in rustfmt.toml.
const MOST: usize = 100;

/// Comments of `text` that are wider, each as `line: what is wrong`. Rows of tables, code between
/// fences and what stands without a space cannot be broken.
pub(crate) fn check(text: &str) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        let Some(words) = words_of_comment(line) else {
            in_code = false;
            continue;
        };
        in_code ^= words.starts_with("```");
        let width = line.chars().count();
        let can_break = !in_code && !words.starts_with('|') && words.contains(' ');
        if width > MOST && can_break {
            let line = at + 1;
            found.push(format!("{line}: a comment of {width} columns, at most {MOST}"));
        }
    }
    found
}

/// What a line that is a comment says.
fn words_of_comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_comment_is_found_and_what_cannot_be_broken_is_not() {
        let wide = "word ".repeat(25);
        let text = format!(
            "//! {wide}\n//! | {wide} |\n/// ```\n/// {wide}\n/// ```\n    // {wide}\n// {}\n\
             let a = \"{wide}\";\n/// é{}\n",
            "x".repeat(120),
            " é".repeat(47)
        );
        let lines: Vec<String> = check(&text);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("1: ") && lines[1].starts_with("6: "), "{lines:?}");
    }
}
