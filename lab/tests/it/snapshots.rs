//! What people read, as committed snapshots: every command's help, a page's text, the figures of
//! models. A difference is something to look at, then to take over with `INSTA_UPDATE=always`.

use farline_lab::{farline, farline_binary, succeed};
use insta::assert_snapshot;

/// Help of the command `words` and of all below it.
fn help(words: &[&str]) -> String {
    let mut text = succeed(farline().args(words).arg("--help"));
    let commands: Vec<String> = text
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|command| command != "help")
        .collect();
    for command in commands {
        text += &format!("\n== farline {} {command}\n\n", words.join(" "));
        text += &help(&[words, &[&command]].concat());
    }
    text
}

#[test]
fn every_commands_help() {
    let all = help(&[]);
    let mut parts = all.split("\n== farline  ");
    assert_snapshot!("help", parts.next().expect("its own"));
    let mut count = 0;
    for part in parts {
        let name = part.lines().next().expect("a name");
        assert_snapshot!(format!("help-{name}"), part);
        count += 1;
    }
    assert!(count >= 8, "only {count} commands");
}

#[test]
fn plans_of_two_paths_as_a_terminal_shows_them() {
    let plan = |words: &[&str]| succeed(farline().arg("plan").args(words));
    let lossy = plan(&["usn-8600", "--loss", "1e-5", "--size", "1TB"]);
    let wide = plan(&["custom", "--rate", "100G", "--rtt", "200ms", "--size", "10TB"]);
    assert_snapshot!("plan-terminal", [lossy, wide].join("\n"));
}

/// What a reader of the page sees but its drawings, a line for each block of text.
fn visible(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text += before;
        let (tag, after) = tag.split_once('>').expect("a whole tag");
        let name = tag.split([' ', '\n']).next().unwrap_or(tag);
        rest = match name {
            "style" | "script" | "svg" => {
                let end = format!("</{name}>");
                after.split_once(&end).map_or("", |(_, after)| after)
            }
            _ => after,
        };
        text += match name {
            "td" | "th" => " | ",
            "a" | "/a" | "b" | "/b" | "code" | "/code" | "em" | "/em" | "strong" | "/strong"
            | "span" | "/span" | "sub" | "/sub" | "sup" | "/sup" | "/td" | "/th" => "",
            _ => "\n",
        };
    }
    for (entity, letter) in [("&#39;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">")] {
        text = text.replace(entity, letter);
    }
    let text = text.replace("&amp;", "&");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// `farline profile --simulate` with `arguments`: its table on a terminal, and its page's text.
fn modelled(arguments: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = farline();
    command.current_dir(folder.path()).args(["profile", "--simulate"]).args(arguments);
    let table = succeed(command.args(["-o", "page.html"]));
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    // Which version made it, and when, is another one's tomorrow; where the binary is, elsewhere.
    let page = visible(&page).replace(farline_binary().to_str().expect("text"), "farline");
    let version = format!("Farline {}, ", env!("CARGO_PKG_VERSION"));
    let (before, after) = page.split_once(&version).expect("who made it");
    let (_, after) = after.split_once(" UTC.").expect("when");
    (table, format!("{before}Farline VERSION, DATE.{after}"))
}

#[test]
fn a_models_figures_and_its_pages_text() {
    let (table, page) = modelled(&[
        "--link",
        "usn-1400,usn-8600",
        "--streams",
        "1,8",
        "--congestion",
        "cubic,htcp",
        "--loss",
        "0,1e-5",
    ]);
    assert_snapshot!("profile-table", table);
    assert_snapshot!("profile-page", page);
}

#[test]
fn the_papers_figures_of_tcp_and_rdma_and_their_pages_text() {
    for preset in ["sc08-distance", "sc08-ib-stability"] {
        let (table, page) = modelled(&["--preset", preset]);
        assert_snapshot!(format!("{preset}-table"), table);
        assert_snapshot!(format!("{preset}-page"), page);
    }
}

/// The text of a preset's page.
fn page_text(preset: &str) {
    let (_, page) = modelled(&["--preset", preset]);
    assert_snapshot!(format!("{preset}-page"), page);
}

#[test]
fn the_text_of_the_other_experiments_pages() {
    for preset in [
        "wanphy-recovery",
        "wanphy-stability",
        "adts-staging",
        "icpp08-ipoib",
        "sc08-ib-distance",
        "sc08-cm",
        "icpp08-verbs",
    ] {
        page_text(preset);
    }
}

// Those that take longest are tests of their own, so that nobody who changes a page waits for one after the
// other.

#[test]
fn the_text_of_udts_page() {
    page_text("wanphy-udt");
}

#[test]
fn the_text_of_the_page_of_tcp_next_to_rdma() {
    page_text("sc08-tcp-rdma");
}
