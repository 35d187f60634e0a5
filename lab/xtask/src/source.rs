//! What one source file says: the modules it imports, the types, functions and tests it names,
//! whether it holds unsafe code.
//!
//! The file is read as tokens, so text inside comments and strings does not count and code inside
//! macros does.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// The facts of one file that the house rules are about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Top-level names reached through `crate::` or through enough `super::`, with the line; tests
    /// are left out.
    pub(crate) imports: BTreeSet<(String, usize)>,
    /// Every path reached so, from the crate root; tests are left out.
    pub(crate) reached: BTreeSet<Vec<String>>,
    /// Lines with the word `unsafe`, tests included.
    pub(crate) unsafe_lines: Vec<usize>,
    /// Names that the house does not use, with the line, tests included.
    pub(crate) bad_names: Vec<(String, usize)>,
    /// Names of types and traits that are `pub` without a limit, with the line; tests are left out.
    pub(crate) public_types: Vec<(String, usize)>,
    /// Names of functions that are tests, with the line.
    pub(crate) tests: Vec<(String, usize)>,
    /// Strings that are a flag of a command line, as one hands to a process, with the line; tests
    /// are left out.
    pub(crate) flags: Vec<(String, usize)>,
    /// How often strings name a flag of a command line for people, such as `leave --limit out`;
    /// tests are left out.
    pub(crate) named_flags: usize,
}

/// How many flags a literal, as it is written, names: two hyphens and a small letter where a word
/// begins.
fn flags_named(literal: &str) -> usize {
    let begins = |at: usize| !literal[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
    let named = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let is_text = literal.starts_with('"') || literal.starts_with('r');
    let found =
        literal.match_indices("--").filter(|&(at, _)| begins(at) && named(&literal[at + 2..]));
    if is_text { found.count() } else { 0 }
}

/// Whether a literal, as it is written, is a string such as `"--listen"` or `"--to={}"`.
fn is_flag(literal: &str) -> bool {
    literal.strip_prefix("\"--").and_then(|rest| rest.strip_suffix('"')).is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains(char::is_whitespace)
    })
}

/// What opens the definition of a type or trait.
const TYPE_WORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Words that say nothing about what a type or module is.
const EMPTY_WORDS: [&str; 6] = ["manager", "managers", "helper", "helpers", "util", "utils"];

impl Facts {
    /// Reads `text`, the file of the module `path` (empty for the crate root). A file of tests has
    /// no imports to check.
    pub(crate) fn read(text: &str, path: &[String], is_test: bool) -> Result<Facts, String> {
        let tokens: TokenStream =
            text.parse().map_err(|error| format!("not Rust tokens: {error}"))?;
        let mut facts = Facts::default();
        facts.walk(tokens, &mut path.to_vec(), is_test);
        Ok(facts)
    }

    /// Visits `tokens`, which stand in the module `path`.
    fn walk(&mut self, tokens: TokenStream, path: &mut Vec<String>, mut in_test: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let outer = in_test;
        // `#[cfg(test)]` covers the tokens up to the end of the item behind it: its `;` or its
        // braces.
        let mut covered = false;
        let mut is_test_next = false;
        for (i, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    if word == "fn"
                        && std::mem::take(&mut is_test_next)
                        && let Some(TokenTree::Ident(name)) = tokens.get(i + 1)
                    {
                        self.tests.push((name.to_string(), name.span().start().line));
                    }
                    let is_public = matches!(tokens[..i].last(), Some(TokenTree::Ident(before))
                        if before == "pub");
                    if is_public
                        && !in_test
                        && TYPE_WORDS.contains(&word.as_str())
                        && let Some(TokenTree::Ident(name)) = tokens.get(i + 1)
                    {
                        self.public_types.push((name.to_string(), name.span().start().line));
                    }
                    self.word(&word, &tokens[i..], path, in_test);
                }
                TokenTree::Punct(mark) if covered && mark.as_char() == ';' => {
                    (covered, in_test) = (false, outer)
                }
                TokenTree::Group(group) if is_test_attribute(&tokens[..i], group) => {
                    (covered, in_test) = (true, true)
                }
                TokenTree::Group(group) => {
                    is_test_next |= marks_a_test(&tokens[..i], group);
                    let module = module_opened(&tokens[..i], group);
                    path.extend(module.clone());
                    // A comment of an item is an attribute with text.
                    let is_doc = is_comment(group);
                    self.walk(group.stream(), path, in_test || is_doc);
                    if module.is_some() {
                        path.pop();
                    }
                    if covered && group.delimiter() == Delimiter::Brace {
                        (covered, in_test) = (false, outer);
                    }
                }
                TokenTree::Literal(literal) if !in_test => {
                    let text = literal.to_string();
                    self.named_flags += flags_named(&text);
                    if is_flag(&text) {
                        self.flags.push((text, literal.span().start().line));
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes what the identifier at the head of `tokens` means.
    fn word(&mut self, word: &str, tokens: &[TokenTree], path: &[String], in_test: bool) {
        let line = tokens[0].span().start().line;
        match word {
            "unsafe" => self.unsafe_lines.push(line),
            "crate" if !in_test => {
                self.reach(&[], &tokens[1..], line);
                self.follow(&[], &tokens[1..]);
            }
            "super" if !in_test => {
                let base = &path[..path.len().saturating_sub(1)];
                self.reach(base, &tokens[1..], line);
                self.follow(base, &tokens[1..]);
            }
            "mod" | "struct" | "enum" | "trait" | "type" | "union" => {
                if let Some(TokenTree::Ident(name)) = tokens.get(1)
                    && words(&name.to_string())
                        .iter()
                        .any(|word| EMPTY_WORDS.contains(&word.as_str()))
                {
                    self.bad_names.push((name.to_string(), line));
                }
            }
            "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.get(1)
                    && name.to_string().starts_with("get_")
                {
                    self.bad_names.push((format!("fn {name}"), line));
                }
            }
            _ => {}
        }
    }

    /// Follows `::name`, `::super` or `::{...}` from the module `base` and notes a name that stands
    /// in the crate root.
    fn reach(&mut self, base: &[String], tokens: &[TokenTree], line: usize) {
        let [TokenTree::Punct(a), TokenTree::Punct(b), rest @ ..] = tokens else { return };
        if a.as_char() == ':' && b.as_char() == ':' {
            self.step(base, rest, line);
        }
    }

    /// Follows a path behind `base` to its end and notes it, and each that a group holds.
    fn follow(&mut self, base: &[String], tokens: &[TokenTree]) {
        let [TokenTree::Punct(a), TokenTree::Punct(b), rest @ ..] = tokens else {
            self.reached.insert(base.to_vec());
            return;
        };
        if a.as_char() != ':' || b.as_char() != ':' {
            self.reached.insert(base.to_vec());
            return;
        }
        self.follow_name(base, rest);
    }

    fn follow_name(&mut self, base: &[String], tokens: &[TokenTree]) {
        match tokens.first() {
            Some(TokenTree::Ident(name)) if name == "super" => {
                self.follow(&base[..base.len().saturating_sub(1)], &tokens[1..]);
            }
            Some(TokenTree::Ident(name)) => {
                self.follow(&[base, &[name.to_string()]].concat(), &tokens[1..]);
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
                inner.split(comma).for_each(|entry| self.follow_name(base, entry));
            }
            _ => {}
        }
    }

    fn step(&mut self, base: &[String], tokens: &[TokenTree], line: usize) {
        match tokens.first() {
            Some(TokenTree::Ident(name)) if name == "super" => {
                // The word is met again when the walk comes to it, but without its base: only this
                // step knows it.
                self.reach(&base[..base.len().saturating_sub(1)], &tokens[1..], line);
            }
            Some(TokenTree::Ident(name)) if base.is_empty() => {
                self.imports.insert((name.to_string(), line));
            }
            Some(TokenTree::Punct(mark)) if mark.as_char() == '*' && base.is_empty() => {
                self.imports.insert(("*".to_owned(), line));
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
                for entry in inner.split(comma) {
                    self.step(
                        base,
                        entry,
                        entry.first().map_or(line, |token| token.span().start().line),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Whether `group`, with what stands `before` it, is the attribute `#[cfg(test)]`.
fn is_test_attribute(before: &[TokenTree], group: &proc_macro2::Group) -> bool {
    attribute(before, group).is_some_and(|inside| inside == "cfg(test)")
}

/// Whether `group` is `#[test]` or, with or without arguments, `#[tokio::test]`.
fn marks_a_test(before: &[TokenTree], group: &proc_macro2::Group) -> bool {
    attribute(before, group).is_some_and(|inside| {
        let name = inside.split('(').next().unwrap_or_default();
        name == "test" || name.ends_with("::test")
    })
}

/// Whether `group` is a comment of an item or of a file, as the attribute that it stands for.
fn is_comment(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(word)) if word == "doc")
}

/// What stands inside `group`, without spaces, if that is an attribute.
fn attribute(before: &[TokenTree], group: &proc_macro2::Group) -> Option<String> {
    let hash = matches!(before.last(), Some(TokenTree::Punct(mark)) if mark.as_char() == '#');
    (hash && group.delimiter() == Delimiter::Bracket)
        .then(|| group.stream().to_string().split_whitespace().collect())
}

/// The module that `group` is the body of.
fn module_opened(before: &[TokenTree], group: &proc_macro2::Group) -> Option<String> {
    match before {
        [.., TokenTree::Ident(word), TokenTree::Ident(name)]
            if word == "mod" && group.delimiter() == Delimiter::Brace =>
        {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// The words of a `snake_case` or `CamelCase` name, in small letters.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || letter == '_' {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The top-level names that `text` imports when it is the module `transfer::plan`.
    fn imports(text: &str) -> Vec<String> {
        let facts =
            Facts::read(text, &["transfer".to_owned(), "plan".to_owned()], false).expect("tokens");
        facts.imports.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn finds_imports_however_they_are_written() {
        assert_eq!(imports("use crate::units::Time;"), ["units"]);
        assert_eq!(
            imports("use crate::{gridftp::Reply, units::{Span, Time}};"),
            ["gridftp", "units"]
        );
        assert_eq!(imports("use super::super::wan::Link;"), ["wan"]);
        assert_eq!(imports("use super::{Block, super::wan::Link};"), ["wan"]);
        assert_eq!(imports("fn f(page: crate::report::Page) {}"), ["report"]);
        assert_eq!(imports("fn f() { println!(\"{}\", crate::wan::NAME) }"), ["wan"]);
        assert_eq!(imports("use crate::*;"), ["*"]);
        assert_eq!(imports("pub(crate) fn f() {}"), Vec::<String>::new());
        assert_eq!(
            imports(
                "use super::Block; // crate::wan\n/// [`crate::report`]\nconst X: &str = \
                 \"crate::units\";"
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn follows_paths_to_neighbours() {
        let text = "use super::{Block, cut::{Cut, Limit}};\nfn f() { crate::wan::rate() }\n\
            #[cfg(test)]\nuse super::late::Late;";
        let path = ["transfer".to_owned(), "plan".to_owned()];
        let reached = Facts::read(text, &path, false).expect("tokens").reached;
        let reached: Vec<String> = reached.iter().map(|names| names.join("::")).collect();
        assert_eq!(
            reached,
            ["transfer::Block", "transfer::cut::Cut", "transfer::cut::Limit", "wan::rate"]
        );
    }

    #[test]
    fn an_inline_module_is_one_level_deeper() {
        assert_eq!(imports("mod inner { use super::super::wan::Link; }"), Vec::<String>::new());
        assert_eq!(imports("mod inner { use super::super::super::wan::Link; }"), ["wan"]);
    }

    #[test]
    fn imports_of_tests_do_not_count_and_those_behind_them_do() {
        assert_eq!(
            imports("#[cfg(test)]\nmod tests { use crate::wan::Link; }\nuse crate::units::Time;"),
            ["units"]
        );
        assert_eq!(
            imports("#[cfg(test)]\nuse crate::wan::Link;\nuse crate::units::Time;"),
            ["units"]
        );
        assert_eq!(imports("#[cfg(not(test))]\nuse crate::wan::Link;"), ["wan"]);
    }

    #[test]
    fn finds_public_types_and_the_names_of_tests() {
        let text = "pub struct A;\npub(super) struct B;\nstruct C;\npub trait D {}\n\
            #[cfg(test)]\nmod tests {\n    pub struct E;\n    #[test]\n    fn is_one() {}\n    \
            #[tokio::test(flavor = \"current_thread\")]\n    async fn is_another() {}\n    fn \
            is_none() {}\n}";
        let facts = Facts::read(text, &[], false).expect("tokens");
        assert_eq!(facts.public_types, [("A".to_owned(), 1), ("D".to_owned(), 4)]);
        assert_eq!(facts.tests, [("is_one".to_owned(), 9), ("is_another".to_owned(), 11)]);
    }

    #[test]
    fn counts_flags_that_strings_name_and_not_those_of_comments() {
        let text = "//! Nor --here.\n/// Not --this.\nfn f() { g(\"leave --limit out, or `--tls-ca`\", \"a--b\") }\n\
            // nor --that\n#[cfg(test)]\nmod tests { const A: &str = \"--other\"; }";
        assert_eq!(Facts::read(text, &[], false).expect("tokens").named_flags, 2);
    }

    #[test]
    fn finds_unsafe_code_and_empty_names() {
        let text = "// unsafe\nstruct Utility;\nstruct BufferManager;\nmod utils {}\nfn \
            get_size() {}\nfn f() { unsafe { g() } }";
        let facts = Facts::read(text, &[], false).expect("tokens");
        assert_eq!(facts.unsafe_lines, [6]);
        let names: Vec<_> =
            facts.bad_names.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(names, [("BufferManager", 3), ("utils", 4), ("fn get_size", 5)]);
    }
}
