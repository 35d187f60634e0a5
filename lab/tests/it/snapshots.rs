//! What people read, as committed snapshots: every command's help, a page's text, the figures of
//! models. A difference is something to look at, then to take over with `INSTA_UPDATE=always`.

use farline_core::line::{
    Arrived, ClockState, DelaySample, FrameMix, KernelTimes, LineCriterion, LineDocument,
    LineSettings, LineTest, ReceiveDrops, SentSecond, Tally, TallyTotals,
};
use farline_core::report::ReportDocument;
use farline_core::report::demo::DemoResult;
use farline_core::units::{Rate, Rng, Time};
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

// Those that take longest are tests of their own, so that nobody who changes a page waits for one
// after the other.

#[test]
fn the_text_of_udts_page() {
    page_text("wanphy-udt");
}

#[test]
fn the_text_of_the_page_of_tcp_next_to_rdma() {
    page_text("sc08-tcp-rdma");
}

/// A line test whose every second is known: losses in runs and alone, a wrong bit, seconds that do
/// not count for three reasons, jitter on both ways, and a clock there that is 3 ms ahead.
fn line_test(criterion: Option<LineCriterion>) -> LineDocument {
    let settings = LineSettings {
        target: "dtn2.example.org".to_owned(),
        rate: Rate::from_bps(100_000_000),
        load_percent: 90.0,
        frames: FrameMix::cjpat(),
        ethernet: None,
        burst: 4,
        criterion,
        confidence: 0.95,
        loss_burst: 1.0,
        most_seconds: 30,
        most_frames: None,
    };
    let (mut test, mut tally) = (LineTest::new(settings, false), Tally::new());
    let (mut rng, mut next) = (Rng::new(19), 0);
    for second in 0..30 {
        let frames = 1_000;
        for (n, sequence) in (0..frames).zip(next..) {
            let is_own = second == 7 && (400..450).contains(&n);
            if is_own || sequence % 1_700 < 3 || sequence % 997 == 0 {
                continue;
            }
            let wrong_bits = u64::from(sequence == 4_242);
            let after_own_drops = second == 7 && n == 450;
            if after_own_drops {
                tally.note_own_drops(50);
            }
            let compared_bits = 11_776;
            tally.arrive(&Arrived { sequence, second, compared_bits, wrong_bits, after_own_drops });
        }
        next += frames;
        let own_drops = if second == 12 { 3 } else { 0 };
        let framed_bits = frames * 12_144;
        let is_short = second == 3;
        test.note_sent(SentSecond { second, frames, framed_bits, own_drops, is_short, next });
        for packet in 0..50 {
            let mut at = second * 1_000_000_000 + packet * 20_000_000;
            let mut later = |least: u64| {
                at += least + rng.below(200_000);
                at
            };
            let (sent, received) = (later(0), later(9_000_000) + 3_000_000);
            let (returned, came) = (received + 20_000, later(9_100_000));
            let [sent, received, returned, came] =
                [sent, received, returned, came].map(|at| Time::from_nanos(1_000_000_000 + at));
            test.note_delay(second, DelaySample { sent, received, returned, came });
        }
    }
    tally.rows(0, 99).into_iter().for_each(|row| test.note_row(row));
    test.settle_sent();
    tally.settle(&test.settled_frames());
    test.note_settled_there(tally.settled());
    let device_drops = Some(ReceiveDrops { missed: 4, dropped: 2, backlog: 0 });
    test.note_totals(&TallyTotals { device_drops, ..tally.totals(Some(next)) });
    let (first, entries) = tally.losses(0, Some(next), usize::MAX);
    test.note_losses(first, &entries);
    test.sender.own_drops = 3;
    test.sender.device_drops = Some(ReceiveDrops { backlog: 9, ..ReceiveDrops::default() });
    let (here, there) = ((true, 40_000), (false, 16_000_000));
    let state = |(is_synchronised, error_ns)| ClockState { is_synchronised, error_ns };
    test.clock_states = Some((state(here), state(there)));
    let packets = 1_500;
    test.kernel_times =
        KernelTimes { packets, left_here: 1_499, came_here: 1_500, left_there: 1_480 };
    test.document("VERSION", "DATE")
}

#[test]
fn a_line_tests_page_and_what_a_terminal_shows_of_it() {
    let document = line_test(Some(LineCriterion::Loss(1e-2)));
    assert_snapshot!("line-page", visible(&document.page(&[]).html()));
    for width in [80, 50] {
        assert_snapshot!(format!("line-terminal-{width}"), document.plain(width));
    }
}

#[test]
fn the_verdicts_of_a_line_test() {
    let criteria = [
        None,
        Some(LineCriterion::Loss(5e-2)),
        Some(LineCriterion::Loss(1e-4)),
        Some(LineCriterion::Loss(3e-3)),
        Some(LineCriterion::BitErrors(1e-4)),
        Some(LineCriterion::BitErrors(1e-12)),
    ];
    let verdicts = criteria.map(|criterion| {
        let document = line_test(criterion);
        format!("{:?}: {}", document.outcome, document.verdict)
    });
    assert_snapshot!("line-verdicts", verdicts.join("\n"));
}

/// A demo of two tools, one of which lost a byte, over a link that was late. No figure in it was
/// measured.
fn demo() -> DemoResult {
    let run = |tool: &str, seconds: f64, identical: bool| {
        serde_json::json!({
            "tool": tool, "version": "1.0", "dataset": "CCSM-like", "settings": "as it comes",
            "congestion": "cubic", "streams": 4, "seconds": seconds, "bytes": 1 << 30, "files": 4,
            "rate_bps": (8.0 * f64::from(1 << 30) / seconds) as u64, "finished": true,
            "identical": identical, "verified": if identical { "every byte" } else { "x.h5: byte 7" },
            "limited_by": (tool == "farline").then_some("the path's rate, which is full"),
            "samples": [{"t_s": 0.0, "bytes": 0}, {"t_s": seconds, "bytes": 1 << 30}],
        })
    };
    let result = serde_json::json!({
        "schema": "farline/demo/1", "farline": "VERSION", "date": "DATE",
        "link": {
            "path": "usn-8600", "rtt_ns": 163_000_000, "rate_bps": 9_290_000_000_u64,
            "queue_bytes": 189_283_750, "mtu": 9000, "kernel": "6.1", "cpus": 2, "root": true,
        },
        "accuracy": {
            "valid": false, "reason": "1 of 100 packets was 3.3 ms late and more", "p50_us": 18.0,
            "p99_us": 3_300.0, "max_us": 6_200.0, "histogram": [[16.0, 400], [8_192.0, 600]],
            "drops": [["queue", 3]],
        },
        "datasets": [{
            "name": "CCSM-like", "about": "Four files of 256 MiB.", "files": 4, "bytes": 1 << 30,
        }],
        "runs": [run("rsync", 40.0, false), run("farline", 4.0, true)],
        "skipped": [{"tool": "globus-url-copy", "reason": "it is not installed"}],
        "choices": [{"parameter": "channels", "value": "4", "reason": "the round trip is long"}],
        "reproduce": ["make demo"],
    });
    serde_json::from_value(result).expect("a demo's document")
}

#[test]
fn the_text_of_the_demos_page() {
    assert_snapshot!("demo-page", visible(&demo().page().html()));
}
