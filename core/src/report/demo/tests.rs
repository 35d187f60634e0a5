//! The demo's page from a made-up document: a fixture, not a measurement.

use super::*;

/// A made-up result. No figure in it was measured anywhere.
fn fixture() -> DemoResult {
    let run = |tool: &str, dataset: &str, seconds: f64, bytes: Bytes, streams: u32| {
        let readings = (seconds * 5.0) as u64;
        // A slow start, then a steady rate with a wobble.
        let arrived = |i: u64| {
            let share = i as f64 / readings as f64;
            let wobble = (i as f64 * 1.7).sin() * 0.01;
            ((share * share.sqrt() + wobble * share * (1.0 - share)).clamp(0.0, 1.0)
                * bytes.0 as f64) as u64
        };
        DemoRun {
            tool: tool.to_owned(),
            version: "0.0.0".to_owned(),
            dataset: dataset.to_owned(),
            settings: format!("made up, -p {streams} <&>"),
            congestion: "cubic".to_owned(),
            streams,
            seconds,
            bytes,
            files: 4,
            rate_bps: Rate::of(bytes, Span::from_secs_f64(seconds)),
            finished: true,
            identical: tool != "breaker",
            verified: "every byte, BLAKE3".to_owned(),
            limited_by: (tool == "farline").then(|| "the receiver's writes".to_owned()),
            samples: (0..=readings)
                .map(|i| DemoSample { t_s: i as f64 / 5.0, bytes: arrived(i) })
                .collect(),
        }
    };
    let (large, small) = (Bytes::mib(1024), Bytes::mib(90));
    DemoResult {
        schema: SCHEMA.to_owned(),
        farline: "0.0.0-fixture".to_owned(),
        date: "MADE UP for a test".to_owned(),
        link: DemoLink {
            path: "usn-8600".to_owned(),
            rtt_ns: Span::from_millis(163),
            rate_bps: Rate::from_bps(9_290_000_000),
            queue_bytes: Bytes(189_283_750),
            mtu: 9000,
            kernel: "0.0.0".to_owned(),
            cpus: 2,
            root: false,
        },
        accuracy: DemoAccuracy {
            valid: true,
            reason: "99 of 100 packets were less than 3.26 ms late, and no frame was lost for \
                lack of a processor"
                .to_owned(),
            p50_us: 18.0,
            p99_us: 430.0,
            max_us: 6_200.0,
            histogram: (0..13)
                .map(|i| {
                    (
                        f64::from(1 << i),
                        [3, 40, 900, 8_000, 61_000, 90_000, 44_000, 9_000, 2_100, 800, 70, 3, 1][i],
                    )
                })
                .collect(),
            drops: vec![
                ("model".to_owned(), 0),
                ("queue".to_owned(), 0),
                ("overrun".to_owned(), 0),
            ],
        },
        datasets: vec![
            Dataset {
                name: "CCSM-like".to_owned(),
                about: "Four files of 256 MiB that do not compress.".to_owned(),
                files: 4,
                bytes: large,
            },
            Dataset {
                name: "small files".to_owned(),
                about: "A tree of headers.".to_owned(),
                files: 3_000,
                bytes: small,
            },
        ],
        runs: vec![
            run("rsync", "CCSM-like", 41.0, large, 1),
            run("globus-url-copy", "CCSM-like", 9.0, large, 8),
            run("farline", "CCSM-like", 4.2, large, 8),
            run("rsync", "small files", 11.0, small, 1),
            run("globus-url-copy", "small files", 48.0, small, 4),
            run("farline", "small files", 3.4, small, 4),
        ],
        skipped: vec![Skipped {
            tool: "carrier pigeon".to_owned(),
            reason: "it is not installed".to_owned(),
        }],
        choices: vec![
            DemoChoice {
                parameter: "streams".to_owned(),
                value: "8".to_owned(),
                reason: "the path holds 181 MiB, one socket 32 MiB".to_owned(),
            },
            DemoChoice {
                parameter: "block".to_owned(),
                value: "4 MiB".to_owned(),
                reason: "large enough to keep the disk busy".to_owned(),
            },
        ],
        reproduce: vec!["git clone FARLINE farline".to_owned(), "make -C farline demo".to_owned()],
    }
}

#[test]
fn the_page_shows_every_tool_choice_and_figure() {
    let html = fixture().page().html();
    for text in [
        "globus-url-copy",
        "rsync",
        "carrier pigeon",
        "181 MiB",
        "163 ms",
        "9.29 Gbit/s",
        "every byte, BLAKE3",
        "p99 430 us",
        "make -C farline demo",
    ] {
        assert!(html.contains(text), "no {text}");
    }
    assert!(!html.contains("<&>"), "settings are not escaped");
    assert!(!html.contains("NaN") && !html.contains("inf\""), "a figure without a number");
    // A reference into the page itself loads nothing.
    let outward = html.replace("url(#", "");
    for loader in ["src=", "href=", "url(", "@import", "http:", "https:"] {
        assert!(!outward.contains(loader), "the page loads something: {loader}");
    }
}

#[test]
fn a_failed_run_and_a_late_link_are_not_overlooked() {
    let mut result = fixture();
    result.accuracy.valid = false;
    result.runs[0].identical = false;
    let html = result.page().html();
    assert!(html.contains("The link was not exact") && html.contains("The run is not valid"));
    assert!(html.contains("DIFFERS") && html.contains("the copy differs"));
}

#[test]
fn the_document_travels_in_its_page() {
    let html = fixture().page().html();
    let data = html
        .split("id=\"data\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next())
        .expect("data");
    let back: DemoResult = serde_json::from_str(data).expect("the same document");
    assert_eq!(back.schema, SCHEMA);
    assert_eq!(back.runs.len(), 6);
    assert_eq!(back.link.rtt_ns, Span::from_millis(163));
}

#[test]
fn a_result_without_anything_is_still_a_page() {
    let mut result = fixture();
    (result.runs, result.datasets, result.choices, result.skipped) =
        (vec![], vec![], vec![], vec![]);
    result.accuracy = DemoAccuracy::default();
    let html = result.page().html();
    assert!(html.contains("It reported no choices") && !html.contains("NaN"));
}

#[test]
fn rates_are_the_slope_between_readings() {
    let sample = |t_s: f64, bytes: u64| DemoSample { t_s, bytes };
    let rates = rates(&[
        sample(0.0, 0),
        sample(0.2, 25_000_000),
        sample(0.2, 25_000_000),
        sample(0.4, 25_000_000),
    ]);
    assert_eq!(rates.len(), 2);
    assert!((rates[0].1 - 1.0).abs() < 1e-9 && rates[1].1.abs() < 1e-9, "{rates:?}");
}

/// Writes the fixture's page where `FARLINE_PAGE` says, to look at it: `cargo test -p farline-core
/// fixture_page -- --ignored`.
#[test]
#[ignore = "for people who change the page"]
#[allow(clippy::disallowed_methods, reason = "a test that writes a file for people to look at")]
fn fixture_page() {
    let path = std::env::var("FARLINE_PAGE").expect("FARLINE_PAGE names the file to write");
    std::fs::write(&path, fixture().page().html()).expect("the file can be written");
}
