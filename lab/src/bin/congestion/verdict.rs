//! Whether a measured line is as near to theory and to the pure machine as it must be.

use serde_json::Value;

/// From theory: the time to recover after scripted losses, and after a burst, where the window
/// after the last reduction is measured too.
const AFTER_LOSS: f64 = 0.15;
const AFTER_BURST: f64 = 0.25;
/// From the pure machine's window, at any time.
const APART: f64 = 0.1;

/// What is wrong with `line`, if anything: a line that says nothing (`void`) is nothing to judge,
/// nor is goodput.
pub(crate) fn wrong(line: &Value) -> Option<String> {
    let part = line["part"].as_str().unwrap_or_default();
    if !line["void"].is_null() || !matches!(part, "loss" | "pattern" | "burst") {
        return None;
    }
    let mut found = Vec::new();
    if part != "pattern" {
        let most = if part == "loss" { AFTER_LOSS } else { AFTER_BURST };
        match (line["kernel_s"].as_f64(), line["theory_s"].as_f64()) {
            (Some(kernel), Some(theory)) if (kernel / theory - 1.0).abs() <= most => {}
            (Some(kernel), Some(theory)) => {
                let off = (kernel / theory - 1.0) * 100.0;
                found.push(format!(
                    "recovered in {kernel:.2} s, theory {theory:.2} s ({off:+.0} %, at most {:.0} \
                     %)",
                    most * 100.0
                ));
            }
            // It was not watched for long enough to be back.
            (None, Some(theory))
                if line["watched_s"]
                    .as_f64()
                    .is_some_and(|watched| watched < theory * (1.0 + most)) => {}
            (kernel, theory) => {
                found.push(format!("recovered in {kernel:?} s, theory {theory:?} s"))
            }
        }
    }
    // A burst's losses are the queue's, and not the same in both.
    if part != "burst" {
        match line["apart"].as_f64() {
            Some(apart) if apart <= APART => {}
            Some(apart) => found.push(format!(
                "{:.1} % from the pure machine, at most {:.0} %",
                apart * 100.0,
                APART * 100.0
            )),
            None => found.push(format!(
                "{} reductions cannot be compared with the pure machine's {}",
                line["reductions"], line["machine_reductions"]
            )),
        }
    }
    (!found.is_empty()).then(|| {
        let rtt = line["rtt_s"].as_f64().unwrap_or(0.0) * 1e3;
        format!(
            "{part} of {} ({}) at {rtt:.1} ms: {}",
            line["control"],
            line["set"],
            found.join("; ")
        )
    })
}

/// The name of a line that says nothing, with the reason.
pub(crate) fn void(line: &Value) -> Option<String> {
    let reason = line["void"].as_str()?;
    Some(format!("{} of {}: {reason}", line["part"], line["control"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(part: &str, kernel: Option<f64>, apart: Option<f64>) -> Value {
        json!({ "part": part, "control": "htcp", "set": "paper", "rtt_s": 0.08, "theory_s": 4.0, "kernel_s": kernel,
            "apart": apart, "reductions": 1, "machine_reductions": 1, "watched_s": 9.0, "void": null })
    }

    #[test]
    fn lines_beyond_their_bounds_are_named_with_what_was_found() {
        assert_eq!(wrong(&line("loss", Some(4.5), Some(0.09))), None);
        let said = wrong(&line("loss", Some(4.7), Some(0.11))).expect("both are beyond");
        assert!(
            said.contains("loss of \"htcp\"") && said.contains("+18 %, at most 15 %"),
            "{said}"
        );
        assert!(said.contains("11.0 % from the pure machine"), "{said}");
        assert!(
            wrong(&line("loss", Some(4.0), None)).is_some(),
            "nothing compared is no agreement"
        );
        assert!(wrong(&line("loss", None, Some(0.0))).is_some(), "not back in twice the time");
        assert_eq!(wrong(&line("pattern", None, Some(0.02))), None);
        assert!(wrong(&line("pattern", None, Some(0.2))).is_some());
        // After a burst a quarter, and no comparison of windows.
        assert_eq!(wrong(&line("burst", Some(4.9), None)), None);
        assert!(wrong(&line("burst", Some(5.1), Some(0.0))).is_some());
        let mut short = line("burst", None, None);
        short["theory_s"] = json!(120.0);
        assert_eq!(wrong(&short), None, "nobody waited for it");
        let mut void_line = line("loss", Some(40.0), None);
        void_line["void"] = json!("the link was not exact");
        assert_eq!(wrong(&void_line), None);
        assert!(void(&void_line).is_some_and(|said| said.contains("the link was not exact")));
        assert_eq!(wrong(&json!({ "part": "goodput", "void": null })), None);
    }
}
