//! What might explain a difference from a paper: cells next to the grid's, each with one thing
//! changed.

use super::cell::Cell;
use crate::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

/// A supposed cause, and the runs that test it: what is absent is as in the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// In a few words, such as `windows of 4 MiB`.
    pub name: String,
    /// Why it might be so.
    pub because: String,
    /// Names of the grid's paths over which it is tested.
    pub paths: Vec<String>,
    /// Numbers of streams with which.
    pub streams: Vec<u32>,
    /// The most that one stream may have on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<Bytes>,
    /// Probability that a packet is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The queue before the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<Bytes>,
    /// The line's rate over the path's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<f64>,
    /// How long a repetition runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Hypothesis {
    /// A cause that changes nothing yet.
    pub fn new(name: &str, because: &str, paths: &[&str], streams: &[u32]) -> Hypothesis {
        Hypothesis {
            name: name.to_owned(),
            because: because.to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            streams: streams.to_vec(),
            window_bytes: None,
            loss: None,
            queue_bytes: None,
            line: None,
            seconds: None,
        }
    }

    /// Its cells: `plain` are the grid's own, of which those with its paths and streams are taken
    /// once for each control.
    pub(super) fn cells<'a>(&'a self, plain: &'a [Cell]) -> impl Iterator<Item = Cell> + 'a {
        let mine = |cell: &&Cell| {
            self.paths.contains(&cell.path.name) && self.streams.contains(&cell.streams)
        };
        plain.iter().filter(mine).map(|cell| {
            let mut cell = Cell { hypothesis: Some(self.name.clone()), ..cell.clone() };
            cell.window_bytes = self.window_bytes.or(cell.window_bytes);
            cell.loss = self.loss.unwrap_or(cell.loss);
            if let Some(line) = self.line {
                let path = &mut cell.path;
                path.rate_bps = Rate::from_bps((path.rate_bps.as_bps() as f64 * line) as u64);
                path.queue_bytes = Bytes((path.queue_bytes.0 as f64 * line) as u64);
            }
            cell.path.queue_bytes = self.queue_bytes.unwrap_or(cell.path.queue_bytes);
            cell
        })
    }
}
