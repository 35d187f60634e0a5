//! A profile's page in a real browser: surfaces turn, charts zoom together and are read out, at a
//! desk's and a phone's width.

use farline_lab::{farline, succeed};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What plays the reader.
const READER: &str = include_str!("page.js");

/// Chromium, where there is one.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// What the reader found on `page` in a window of `width` pixels.
fn tried(browser: &Path, page: &Path, state: &Path, width: u32) -> Value {
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
            "--dump-dom",
        ])
        .args([
            format!("--window-size={width},900"),
            format!("--user-data-dir={}", state.display()),
        ])
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .expect("a browser");
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = page.split("id=\"tried\">").nth(1).and_then(|rest| rest.split("</script>").next());
    serde_json::from_str(found.unwrap_or_else(|| panic!("the script broke off: {page}")))
        .expect("one object")
}

#[test]
fn a_reader_turns_surfaces_and_zooms_charts_together() {
    let Some(browser) = browser() else {
        farline_lab::skip(
            "there is no Chromium on this machine: nobody tried whether a page's \
             surfaces turn and its charts zoom",
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let page = dir.path().join("p.html");
    let paths = [
        "--link",
        "usn-0.2,usn-1400,usn-8600",
        "--rate",
        "1G",
        "--streams",
        "1,4,16",
        "--loss",
        "1e-5",
    ];
    let run = ["--seconds", "10", "--repetitions", "2", "--out"];
    succeed(farline().args(["-q", "profile", "--simulate"]).args(paths).args(run).arg(&page));
    let html = fs::read_to_string(&page).expect("a page");
    fs::write(&page, html.replace("</body>", &format!("<script>{{{READER}}}</script></body>")))
        .expect("write");
    // A window is not narrower than 500 pixels; a phone is, and a frame in a window can be.
    let phone = dir.path().join("phone.html");
    let hears = "<script>addEventListener('message', (event) => \
        { const element = document.createElement('script'); \
                 element.type = 'application/json'; element.id = 'tried'; element.textContent = event.data; \
                 document.body.append(element); });</script>";
    fs::write(
        &phone,
        format!(
            "<body>{hears}<iframe src=\"p.html\" width=\"390\" height=\"844\"></iframe></body>"
        ),
    )
    .expect("write");
    for (page, width) in [(&page, 1100), (&page, 500), (&phone, 390)] {
        let found = tried(&browser, page, &dir.path().join("state"), width);
        for done in ["keyTurns", "keyTurnsBack", "dragTurns", "letGoStays"] {
            assert_eq!(found[done], true, "{done} at {width}: {found}");
        }
        let words = |key: &str| found[key].as_str().expect("text").to_owned();
        for read in found["reads"].as_array().expect("two charts") {
            let read = read.as_str().expect("text");
            assert!(
                read.starts_with("26.8 ms: cubic") && read.contains("Gbit/s"),
                "{width}: {found}"
            );
        }
        assert!(words("saysWhere").contains("ms; a double click"), "{width}: {found}");
        let zoom = |value: &Value| value.as_f64().expect("a number");
        assert!(
            zoom(&found["dragZooms"]) > 1.5 && zoom(&found["zoomIsLinked"]) > 1.0,
            "{width}: {found}"
        );
        assert_eq!(found["doubleClickShowsAll"], serde_json::json!([1, 1]), "{width}: {found}");
        assert!(zoom(&found["ticksOfLosses"]) > 0.0, "{width}: {found}");
        assert_eq!(found["wide"], 0, "nothing sticks out at {width}: {found}");
    }
}
