//! Somebody else's client: `schemathesis` asks what the OpenAPI document allows, and more, and
//! every reply is held against the document; a client that `openapi-python-client` writes from it
//! books a slot.

use super::crash::Served;
use crate::table::{heading, row};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What schemathesis looks at: no 5xx, and no reply outside the document.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance";

/// What the generated client is used for.
const BOOKS: &str = r#"
import sys, ssl, datetime
sys.path.insert(0, sys.argv[1])
from farline_calendar_client import AuthenticatedClient
from farline_calendar_client.api.api import reserve, show, topology
from farline_calendar_client.models import ReserveDocument
url, token, ca = sys.argv[2:5]
client = AuthenticatedClient(base_url=url, token=token, verify_ssl=ssl.create_default_context(cafile=ca))
sites = [site.name for site in topology.sync(client=client).sites]
at = lambda hours: (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)).isoformat()
body = ReserveDocument.from_dict({"from": sites[0], "to": sites[-1],
    "for": {"problem": "fixed", "rate_bps": 10**9, "start": at(1), "end": at(2)}})
booked = reserve.sync(client=client, body=body)
again = show.sync(booked.id, client=client)
assert again.id == booked.id and again.legs[0].rate_bps == 10**9, again
print("booked", booked.id)
"#;

/// A program of PyPI's: in the house's own environment, or on the PATH.
fn program(name: &str) -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let own = std::env::var_os("FARLINE_PYTHON").map(PathBuf::from);
    let own = own.unwrap_or_else(|| home.join(".cache/farline/python")).join("bin").join(name);
    if own.is_file() {
        return Ok(own);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file());
    found.with_context(|| {
        format!(
            "no {name}: lab/setup bench installs it, or pip in the folder that FARLINE_PYTHON names"
        )
    })
}

fn generated(served: &Served, folder: &Path, document: &Path) -> Result<()> {
    let client = folder.join("client");
    let generator = program("openapi-python-client")?;
    let made = Command::new(&generator)
        .args(["generate", "--overwrite", "--path"])
        .arg(document)
        .arg("--output-path")
        .arg(&client)
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let script = folder.join("books.py");
    std::fs::write(&script, BOOKS)?;
    let output = Command::new(generator.with_file_name("python3"))
        .arg(&script)
        .arg(&client)
        .arg(served.url())
        .arg(served.token())
        .arg(served.certificate())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        bail!("the generated client: {}", String::from_utf8_lossy(&output.stderr));
    }
    row("a client by openapi-python-client", &said, "it books");
    Ok(())
}

pub(super) fn run(seconds: u64) -> Result<()> {
    heading("Outside client");
    let served = Served::diamond()?;
    let folder = tempfile::tempdir()?;
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, serde_json::to_vec(&farline::calendar::openapi())?)?;
    generated(&served, folder.path(), &document)?;
    let report = folder.path().join("report");
    let output = Command::new(program("st")?)
        .arg("run")
        .arg(&document)
        .args(["--url", served.url(), "-H", &format!("Authorization: Bearer {}", served.token())])
        .arg("--tls-verify")
        .arg(served.certificate())
        // The stream of events has no end.
        .args(["--exclude-path", "/v1/events", "--checks", CHECKS, "--continue-on-failure"])
        .args(["--request-timeout", "20", "--max-time", &seconds.to_string()])
        .current_dir(folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    std::fs::write(&report, &said)?;
    let cases = said.lines().find(|line| line.contains(" generated,")).map_or("?", str::trim);
    row(
        &format!("schemathesis, {seconds} s, all paths but the stream"),
        cases,
        "no 5xx, nothing outside the document",
    );
    if !output.status.success() {
        let tail: Vec<&str> = said.lines().skip_while(|line| !line.contains("FAILURES")).collect();
        bail!("{}", tail.join("\n"));
    }
    Ok(())
}
