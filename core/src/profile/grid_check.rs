//! What cannot be measured is refused before anything runs, with the axis and the value.

use super::grid::{Grid, is_out_alone};
use crate::experiment::{Experiment, Repetitions};
use crate::plan::limits::{
    ChannelLimits, host_fault, loss_fault, mtu_fault, path_fault, window_fault,
};
use crate::units::{Bytes, Error, ErrorCode, Fault, Setting};

/// Larger messages are refused: the sender has to keep one.
const MOST_MESSAGE: Bytes = Bytes::mib(64);

/// Repetitions are not longer, in seconds: the longest of the papers is one of 15 hours, and more
/// than a week is a slip of the finger.
const LONGEST: f64 = 7.0 * 86_400.0;

impl Grid {
    /// Refuses what cannot be measured.
    ///
    /// # Errors
    /// [`Fault::You`] with the axis and the value: an empty axis, a value twice on one, a
    /// probability that is none, a window below one packet, cross-traffic that leaves nothing,
    /// repetitions that never end, more than 100 000 cells.
    pub(super) fn check_values(&self) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::new(Fault::You, ErrorCode::ProfileGrid, message));
        if let Some(copies) = &self.copies {
            copies.check(self.streams.iter().max().copied().unwrap_or(1))?;
        }
        self.check_axes()?;
        if let Some(streams) =
            self.streams.iter().find(|streams| !(1..=ChannelLimits::MEASURED).contains(*streams))
        {
            return wrong(format!("{streams} streams: from 1 to {}", ChannelLimits::MEASURED));
        }
        let packet = self.mtus.iter().max().map_or(0, |mtu| u64::from(*mtu));
        let found = self.mtus.iter().find_map(|mtu| mtu_fault(*mtu));
        let found = found.or_else(|| self.losses.iter().find_map(|loss| loss_fault(*loss)));
        let windows = || self.windows_bytes.iter().flatten();
        if let Some(message) =
            found.or_else(|| windows().find_map(|window| window_fault(*window, packet)))
        {
            return wrong(message);
        }
        if let Some(buffer) =
            self.buffers_bytes.iter().flatten().find(|buffer| buffer.0 < 2 * packet)
        {
            return wrong(format!(
                "a send buffer of {buffer} does not hold two packets of {packet} bytes"
            ));
        }
        if let Some(message) = self
            .messages_bytes
            .iter()
            .flatten()
            .find(|message| !(1..=MOST_MESSAGE.0).contains(&message.0))
        {
            return wrong(format!("messages of {message}: from 1 B to {MOST_MESSAGE}"));
        }
        for path in &self.paths {
            if let Some(message) = path_fault(path, packet) {
                return wrong(message);
            }
            if let Some(cross) = self.cross_bps.iter().find(|cross| **cross >= path.rate_bps) {
                return wrong(format!(
                    "cross-traffic of {cross} leaves nothing of the {} of {}",
                    path.rate_bps, path.name
                ));
            }
        }
        if let Some(message) = host_fault(self.host_bps) {
            return wrong(message);
        }
        let Repetitions { least, most, half_width } = self.repetitions;
        if most == 0 {
            return wrong("0 repetitions: at least one is needed".to_owned());
        }
        if least == 0 || most < least || half_width.is_nan() || half_width < 0.0 {
            return wrong(format!(
                "{least} to {most} repetitions within {half_width}: at least one, and not more at \
                 least than at most"
            ));
        }
        if self.copies.is_some() {
            if !is_out_alone(&self.directions) {
                return wrong("staging is measured one way: out".to_owned());
            }
            if self.buffers_bytes != [None] || self.messages_bytes != [None] {
                return wrong(
                    "staging is measured with the mover's own blocks of 1 MiB and the \
                    kernel's buffers"
                        .to_owned(),
                );
            }
        }
        for (i, one) in self.hypotheses.iter().enumerate() {
            if self.hypotheses[..i].iter().any(|other| other.name == one.name) {
                return wrong(format!("two hypotheses are called `{}`", one.name));
            }
            if one.queue_bytes.is_some_and(|queue| queue.0 < packet) {
                return wrong(format!(
                    "`{}`: a queue that holds no packet of {packet} bytes",
                    one.name
                ));
            }
            if one.line.is_some_and(|line| !(0.01..=100.0).contains(&line)) {
                return wrong(format!("`{}`: a line of {:?} times its rate", one.name, one.line));
            }
            let under = Grid {
                windows_bytes: one
                    .window_bytes
                    .map_or_else(|| self.windows_bytes.clone(), |window| vec![Some(window)]),
                losses: one.loss.map_or_else(|| self.losses.clone(), |loss| vec![loss]),
                seconds: one.seconds.unwrap_or(self.seconds),
                warm_up_s: 0.0,
                hypotheses: Vec::new(),
                ..self.clone()
            };
            under.check().map_err(|error| error.while_doing(format!("`{}`", one.name)))?;
        }
        self.check_times()
    }

    fn check_times(&self) -> Result<(), Error> {
        let (seconds, warm_up, sample) = (self.seconds, self.warm_up_s, self.sample_s);
        let wrong = |message: String| Err(Error::new(Fault::You, ErrorCode::ProfileGrid, message));
        if !(seconds.is_finite() && seconds > 0.0 && warm_up >= 0.0 && warm_up < seconds) {
            return wrong(format!(
                "{seconds} s with {warm_up} s of warm-up: nothing is left to measure"
            ));
        }
        if seconds > LONGEST {
            return wrong(format!("repetitions of {seconds} s: a week, {LONGEST} s, at most"))
                .map_err(|error: Error| {
                    error.hint(format!(
                        "several repetitions say more than a long one: {}",
                        Setting::Repetitions
                    ))
                });
        }
        if !(sample > 0.0 && sample <= seconds / 4.0) {
            return wrong(format!(
                "samples {sample} s apart in {seconds} s: at least four are needed"
            ));
        }
        if let Some(path) = self.paths.iter().find(|path| path.rtt_ns.as_secs_f64() * 4.0 > seconds)
        {
            return wrong(format!("{seconds} s are not four round trips of {}", path.rtt_ns))
                .map_err(|error: Error| {
                    error.hint(format!(
                        "a repetition must be long next to the round-trip time: give {}",
                        Setting::Seconds
                    ))
                });
        }
        if self.disturbance.is_some_and(|disturbance| disturbance.at_ns.as_secs_f64() >= seconds) {
            return wrong(format!("the disturbance comes after the end at {seconds} s"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Disturbance;
    use super::super::grid::tests::grid;
    use super::super::staging::Copies;
    use super::*;
    use crate::units::{Rate, Span};
    use crate::wan::Change;

    #[test]
    fn impossible_grids_are_refused_in_words() {
        let ten = Rate::from_bps(10_000_000_000);
        let cases: [(Grid, &str); 18] = [
            (Grid { paths: vec![], ..grid() }, "paths is empty"),
            (Grid { streams: vec![4, 4], ..grid() }, "streams has a value twice"),
            (Grid { streams: vec![0], ..grid() }, "0 streams"),
            (
                Grid { streams: (1..=1000).collect(), mtus: (1000..1100).collect(), ..grid() },
                "more than 100000 cells",
            ),
            (Grid { mtus: vec![20], ..grid() }, "an MTU of 20"),
            (Grid { losses: vec![1.0], ..grid() }, "a loss of 1"),
            (Grid { windows_bytes: vec![Some(Bytes(1_000))], ..grid() }, "holds no packet"),
            (Grid { buffers_bytes: vec![Some(Bytes(2_000))], ..grid() }, "two packets"),
            (Grid { messages_bytes: vec![Some(Bytes(0))], ..grid() }, "messages of 0"),
            (
                Grid {
                    copies: Some(Copies::usual()),
                    messages_bytes: vec![Some(Bytes(4_096))],
                    ..grid()
                },
                "the mover's own blocks",
            ),
            (Grid { cross_bps: vec![ten], ..grid() }, "leaves nothing"),
            (
                Grid { repetitions: Repetitions { least: 5, most: 3, half_width: 0.1 }, ..grid() },
                "5 to 3 repetitions",
            ),
            (
                Grid { repetitions: Repetitions { least: 0, most: 0, half_width: 0.1 }, ..grid() },
                "0 repetitions: at least one",
            ),
            (Grid { warm_up_s: 30.0, ..grid() }, "nothing is left to measure"),
            (Grid { seconds: 1e15, ..grid() }, "a week"),
            (Grid { sample_s: 15.0, ..grid() }, "at least four"),
            (Grid { seconds: 0.5, sample_s: 0.1, ..grid() }, "not four round trips"),
            (
                Grid {
                    disturbance: Some(Disturbance {
                        at_ns: Span::from_secs(30),
                        change: Change::Lose(1),
                    }),
                    ..grid()
                },
                "comes after the end",
            ),
        ];
        for (grid, words) in cases {
            let error = grid.check().expect_err(words);
            assert!(error.fault == Fault::You && error.message.contains(words), "{words}: {error}");
        }
        assert!(
            Grid { seconds: 54_000.0, ..grid() }.check().is_ok(),
            "the fifteen hours of the Trans-European paper"
        );
    }
}
