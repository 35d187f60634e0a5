//! A grid in one line: how many cells it has, how long they take, and what varies between them.

use super::cell::TrafficDirection;
use super::grid::Grid;
use super::staging::{Order, Store};
use crate::units::Bytes;
use std::fmt::Display;

/// An axis of several values in words; nothing for one value.
fn varied<T: Display>(values: impl IntoIterator<Item = T>, what: &str) -> Option<String> {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    (values.len() > 1).then(|| format!("{}{what}", values.join(", ")))
}

impl Grid {
    /// Cells, repetitions, time and axes, such as `10 cells, 3 to 10 times 20 s, at most 33 min:
    /// bic, htcp; 1 to 5 streams`.
    pub fn outline(&self) -> String {
        let cells = self.cells();
        let hypotheses = cells.iter().filter(|cell| cell.hypothesis.is_some()).count();
        let plain = cells.len() - hypotheses;
        let mut text = if plain == 1 { "1 cell".to_owned() } else { format!("{plain} cells") };
        if hypotheses > 0 {
            text.push_str(&format!(" and {hypotheses} for {} hypotheses", self.hypotheses.len()));
        }
        let (least, most) = (self.repetitions.least, self.repetitions.most);
        let times = match (least, most) {
            (1, 1) => "once".to_owned(),
            _ if least == most => format!("{least} times"),
            _ => format!("{least} to {most} times"),
        };
        let minutes = self.longest().as_secs_f64() / 60.0;
        let longest = if minutes < 120.0 {
            format!("{minutes:.0} min")
        } else {
            format!("{:.0} h", minutes / 60.0)
        };
        text.push_str(&format!(", {times} {} s, at most {longest}", self.seconds));
        let bytes = |sizes: &[Option<Bytes>]| -> Vec<String> {
            sizes
                .iter()
                .map(|size| size.map_or_else(|| "any".to_owned(), |size| size.to_string()))
                .collect()
        };
        let streams = match self.streams[..] {
            [first, .., last] if self.streams.windows(2).all(|pair| pair[1] == pair[0] + 1) => {
                Some(format!("{first} to {last} streams"))
            }
            _ => varied(&self.streams, " streams"),
        };
        let axes = [
            varied(self.paths.iter().map(|path| &path.name), ""),
            varied(&self.congestion, ""),
            streams,
            varied(bytes(&self.windows_bytes), " of window"),
            varied(bytes(&self.buffers_bytes), " of send buffer"),
            varied(bytes(&self.messages_bytes), " a message"),
            varied(&self.mtus, " bytes of MTU"),
            varied(&self.cross_bps, " of other traffic"),
            varied(&self.losses, " of loss"),
            varied(self.directions.iter().copied().map(TrafficDirection::name), ""),
        ];
        let mut axes: Vec<String> = axes.into_iter().flatten().collect();
        if let Some(copies) = &self.copies {
            axes.extend(varied(&copies.staging_bytes, " of staging"));
            axes.extend(varied(copies.stores.iter().copied().map(Store::name), ""));
            axes.extend(varied(copies.orders.iter().copied().map(Order::name), ""));
            axes.extend(varied(copies.drivers.iter().map(|driver| driver.name()), ""));
        }
        if let Some(disturbance) = &self.disturbance {
            axes.push(format!("a disturbance after {}", disturbance.at_ns));
        }
        if !axes.is_empty() {
            text.push_str(&format!(": {}", axes.join("; ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Form, preset};

    #[test]
    fn an_outline_has_the_cells_the_time_and_what_varies() {
        let of = |name, form| preset(name, form).expect("a preset").outline();
        assert_eq!(
            of("sc08-distance", Form::Quick),
            "40 cells and 24 for 6 hypotheses, once 15 s, at most 17 min: usn-0.2, usn-1400, \
             usn-6600, usn-8600; bic, htcp; 1, 5, \
             10, 15, 20 streams"
        );
        assert!(of("sc08-distance", Form::Full).ends_with("; bic, htcp; 1 to 20 streams"));
        assert!(
            of("wanphy-stability", Form::Full).starts_with("1 cell, 15 times 3600 s, at most 15 h")
        );
        assert!(
            of("adts-staging", Form::Quick)
                .contains("; 16 MiB, 32 MiB, 64 MiB, 128 MiB of staging; memory, file; ")
        );
    }
}
