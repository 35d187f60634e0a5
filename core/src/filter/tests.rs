//! Patterns against paths as rsync's manual describes them; the lab compares with rsync itself.

use super::*;
use crate::units::{Error, ErrorCode};

fn nothing(_: &[u8]) -> Result<Vec<u8>, Error> {
    panic!("no file is merged")
}

fn filter(rules: &[&str]) -> FileFilter {
    let mut filter = FileFilter::default();
    for rule in rules {
        filter.add(FilterForm::Rule, rule.as_bytes(), &mut nothing).expect("a rule");
    }
    filter
}

fn excludes(rule: &str, path: &str) -> bool {
    let (path, is_folder) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
    filter(&[rule]).excludes(path.as_bytes(), is_folder)
}

#[test]
fn a_pattern_is_held_against_the_part_it_means() {
    for (rule, yes, no) in [
        ("- *.o", vec!["a.o", "d/a.o", "d.o/x/"], vec!["a.oo", "o"]),
        ("- /a", vec!["a", "a/b"], vec!["b/a"]),
        ("- a/", vec!["a/", "b/a/", "a/x"], vec!["a", "b/a"]),
        ("- b/c", vec!["b/c", "a/b/c"], vec!["bb/c", "c"]),
        ("- a/*/c", vec!["a/b/c", "x/a/b/c"], vec!["a/b/d/c", "a/c"]),
        ("- /a/**/c", vec!["a/b/c", "a/b/d/c"], vec!["a/c", "x/a/b/c"]),
        ("- **/c", vec!["c", "a/c", "a/b/c"], vec!["xc"]),
        ("- a/**", vec!["a/b", "a/b/c", "x/a/b"], vec!["a/", "b"]),
        ("- a/***", vec!["a/", "a/b"], vec!["a", "b/"]),
        ("- [a-c]?", vec!["ax", "d/cz"], vec!["dx", "a"]),
        ("- [!a]b", vec!["cb"], vec!["ab"]),
        ("- []x]", vec!["]", "x"], vec!["["]),
        ("- [[:digit:]]*", vec!["1a"], vec!["a1"]),
        ("- a\\*?", vec!["a*b"], vec!["axb"]),
        ("- a\\b", vec!["a\\b"], vec!["ab"]),
    ] {
        for path in yes {
            assert!(excludes(rule, path), "{rule} excludes {path}");
        }
        for path in no {
            assert!(!excludes(rule, path), "{rule} leaves {path}");
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let kept = filter(&["+ *.c", "- *"]);
    assert!(!kept.excludes(b"a.c", false) && kept.excludes(b"a.h", false));
    assert!(kept.excludes(b"d/a.c", false), "the folder is excluded");
    assert!(!filter(&["+ */", "+ *.c", "- *"]).excludes(b"d/a.c", false));
    assert!(!filter(&["- *", "!"]).excludes(b"a", false));
}

#[test]
fn a_mistake_is_named_by_file_line_and_column() {
    let mut filter = FileFilter::default();
    let mut read = |name: &[u8]| {
        Ok(match name {
            b"one" => b"# said\n\n- *.o\n. two\n".to_vec(),
            _ => b"+ a\n- b[c\n".to_vec(),
        })
    };
    let error = filter.add(FilterForm::Rule, b". one", &mut read).expect_err("an open class");
    assert_eq!(error.code, ErrorCode::BadFilter);
    assert!(error.message.starts_with("two, line 2, column 4: "), "{}", error.message);
    for (rule, column) in [("x y", 1), ("-p a", 2), ("- ", 3), ("! a", 3), (".", 2), ("- /a[", 5)] {
        let error =
            FileFilter::default().add(FilterForm::Rule, rule.as_bytes(), &mut nothing).unwrap_err();
        let wanted = format!("filter `{rule}`, column {column}: ");
        assert!(error.message.starts_with(&wanted), "{}", error.message);
    }
    let circle = FileFilter::default()
        .add(FilterForm::Rule, b". me", &mut |_: &[u8]| Ok(b". me".to_vec()))
        .expect_err("without end");
    assert!(circle.message.contains("without end"), "{}", circle.message);
}

#[test]
fn a_pattern_of_many_stars_takes_no_time() {
    let rule = format!("- {}b", "*a".repeat(40));
    assert!(!excludes(&rule, &"a".repeat(4000)));
}

#[test]
fn a_glob_is_held_against_one_whole_name() {
    let matches = |glob: &str, name: &str| {
        NameGlob::parse(glob.as_bytes()).expect("wildcards").matches(name.as_bytes())
    };
    for (glob, name) in [
        ("run*", "run7"),
        ("x[0-9].h5", "x3.h5"),
        ("?", "a"),
        ("*", "a b"),
        (".*", ".x"),
        ("\\**", "*a"),
    ] {
        assert!(matches(glob, name), "{glob} {name}");
    }
    for (glob, name) in
        [("run*", "a run"), ("x[0-9]", "x10"), ("*", ".x"), ("?", "ab"), ("\\**", "a")]
    {
        assert!(!matches(glob, name), "{glob} {name}");
    }
    for none in ["run7", "x[1", "", "a/b*"] {
        assert_eq!(NameGlob::parse(none.as_bytes()), None, "{none}");
    }
}
