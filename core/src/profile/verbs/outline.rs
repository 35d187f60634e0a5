//! What a grid of RDMA has, in one line: cells by the model, what is measured of it and for how
//! long at most, and what varies.

use super::document::VerbsProfile;
use super::grid::{QpService, Setup, VerbsGrid, VerbsMetric};
use crate::units::{Bytes, Rate};
use std::fmt::Display;

/// The values of an axis, where it has more than one.
fn varied<T: Display>(values: impl IntoIterator<Item = T>, unit: &str) -> Option<String> {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    (values.len() > 1).then(|| format!("{}{unit}", values.join(", ")))
}

fn counted(cells: usize) -> String {
    if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") }
}

impl VerbsGrid {
    /// Such as `40 cells modelled, 24 measured 3 times, at most 12 min: usn-0.2, usn-1400; RC, UD;
    /// 64 B, 2 KiB`. A grid that is modelled only says nothing of measuring.
    pub fn outline(&self) -> String {
        let mut text = format!("{} modelled", counted(self.cells().len()));
        if self.repetitions > 1 {
            text.push_str(&format!(" {} times", self.repetitions));
        }
        if let Some(measured) = &self.measured {
            let (_, cells) = VerbsProfile::new(self.clone(), "").progress();
            let minutes = cells as f64 * f64::from(measured.repetitions) * measured.most_s / 60.0;
            let longest = if minutes < 120.0 {
                format!("{minutes:.0} min")
            } else {
                format!("{:.0} h", minutes / 60.0)
            };
            let times = if measured.repetitions == 1 {
                "once".to_owned()
            } else {
                format!("{} times", measured.repetitions)
            };
            text.push_str(&format!(", {cells} measured {times}, at most {longest}"));
        }
        let bytes = |sizes: &[Option<Bytes>], none: &str| -> Vec<String> {
            sizes
                .iter()
                .map(|size| size.map_or_else(|| none.to_owned(), |size| size.to_string()))
                .collect()
        };
        let sizes = match self.sizes_bytes[..] {
            [first, _, _, _, .., last] => Some(format!("{first} to {last}")),
            _ => varied(&self.sizes_bytes, ""),
        };
        let axes = [
            varied(self.paths.iter().map(|path| &path.name), ""),
            varied(self.signals.iter().map(|signal| signal.name()), ""),
            varied(self.transports.iter().copied().map(QpService::name), ""),
            varied(self.ways.iter().copied().map(VerbsMetric::name), ""),
            varied(self.setups.iter().copied().map(Setup::name), ""),
            varied(&self.queue_pairs, " queue pairs"),
            varied(bytes(&self.credits_bytes, "an extender's"), " of credits"),
            varied(self.cross_bps.iter().map(Rate::to_string), " of other traffic"),
            varied(bytes(&self.queues_bytes, "the path's"), " of queue"),
            sizes,
        ];
        let axes: Vec<String> = axes.into_iter().flatten().collect();
        if axes.is_empty() { text } else { format!("{text}: {}", axes.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::{measured, preset, presets};
    use crate::profile::grid::Form;

    #[test]
    fn an_outline_has_the_cells_the_time_and_what_varies() {
        let of = |name, form| {
            measured(preset(name, form).expect("its paths are known").expect("a preset")).outline()
        };
        assert_eq!(
            of("icpp08-verbs", Form::Quick),
            "210 cells modelled, 105 measured 3 times, at most 52 min: longbow:0us, longbow:10us, \
             longbow:100us, longbow:1ms, \
             longbow:10ms; RC, UD; one way, both ways, round trip; 1 B to 8 MiB"
        );
        assert!(
            of("sc08-cm", Form::Quick).contains("; rdma_cm, exchanged"),
            "{}",
            of("sc08-cm", Form::Quick)
        );
        for (name, _) in presets() {
            let (quick, full) = (of(name, Form::Quick), of(name, Form::Full));
            assert!(
                quick != full && quick.contains(" measured ") && full.contains(" at most "),
                "{name}: {quick}, {full}"
            );
        }
        let alone =
            preset("icpp08-verbs", Form::Quick).expect("known").expect("a preset").outline();
        assert!(!alone.contains("measured"), "{alone}");
    }
}
