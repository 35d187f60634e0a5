//! HighSpeed TCP: how much to add and to take away depends on the window (RFC 3649).

use super::constants::Constants;
use super::loss_based::{Window, WindowAlgorithm};
use crate::units::Time;
use std::sync::LazyLock;

/// Up to this window HighSpeed is Reno: Low_Window (RFC 3649, section 5).
pub const LOW_WINDOW: f64 = 38.0;
/// High_Window (RFC 3649, section 5).
pub const HIGH_WINDOW: f64 = 83_000.0;
/// The decrease at High_Window: High_Decrease (RFC 3649, section 5).
const HIGH_DECREASE: f64 = 0.1;
/// The decrease of Reno.
const LOW_DECREASE: f64 = 0.5;

/// b(w): the part of a window of `w` packets that a loss takes away (RFC 3649, section 5).
pub fn decrease(w: f64) -> f64 {
    if w <= LOW_WINDOW {
        return LOW_DECREASE;
    }
    (HIGH_DECREASE - LOW_DECREASE) * (w.ln() - LOW_WINDOW.ln())
        / (HIGH_WINDOW.ln() - LOW_WINDOW.ln())
        + LOW_DECREASE
}

/// a(w): the packets added to a window of `w` packets each round (RFC 3649, section 5: w^2 p(w) 2
/// b(w) / (2 - b(w))).
pub fn increase(w: f64) -> f64 {
    if w <= LOW_WINDOW {
        return 1.0;
    }
    // p(w) = 0.078 / w^1.2; the RFC's own program, which made the table of its appendix B, writes
    // it as 1 / (w^1.2 * 12.8).
    let p = 1.0 / (w.powf(1.2) * 12.8);
    let b = decrease(w);
    w * w * p * 2.0 * b / (2.0 - b)
}

/// One row of RFC 3649's appendix B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The least window, in packets, to which the row applies.
    pub window: u32,
    /// Packets added each round: the row's number, counted from 1.
    pub increase: u32,
    /// b(w).
    pub decrease: f64,
}

/// The table of RFC 3649's appendix B, by the RFC's rule: a row for each whole packet that a(w)
/// gains.
pub fn table() -> Vec<Row> {
    let mut rows = vec![Row { window: 38, increase: 1, decrease: LOW_DECREASE }];
    let mut last = 1.0;
    for window in 39..=100_000u32 {
        let now = increase(f64::from(window));
        if now > last + 1.0 {
            rows.push(Row {
                window,
                increase: rows.len() as u32 + 1,
                decrease: decrease(f64::from(window)),
            });
            last = now;
        }
    }
    rows
}

/// Worked out once: a stream of a simulation is made in less time than a hundred thousand
/// logarithms take.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(table);

/// The window algorithm of HighSpeed TCP.
#[derive(Clone, Debug)]
pub(super) struct HighSpeed {
    /// Linux looks a(w) and b(w) up in the table of appendix B.
    rows: Option<&'static [Row]>,
}

impl HighSpeed {
    pub(super) fn new(set: Constants) -> HighSpeed {
        HighSpeed { rows: (set == Constants::Linux).then(|| TABLE.as_slice()) }
    }

    fn a_and_b(&self, w: f64) -> (f64, f64) {
        let Some(rows) = self.rows else { return (increase(w), decrease(w)) };
        // Linux takes the first row whose window is not below w.
        let row = rows.partition_point(|row| f64::from(row.window) < w).min(rows.len() - 1);
        (f64::from(rows[row].increase), (rows[row].decrease * 256.0).round() / 256.0)
    }
}

impl WindowAlgorithm for HighSpeed {
    fn congestion_avoidance(&mut self, _now: Time, window: &mut Window, acked: f64) {
        // tcp_highspeed counts acknowledgements; where one stands for one packet, that is the same.
        window.add(acked * self.a_and_b(window.packets).0 / window.packets);
    }

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        packets * (1.0 - self.a_and_b(packets).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_and_b_are_those_of_the_rfcs_table() {
        let rows = table();
        // RFC 3649, appendix B: w, a(w), b(w), every tenth row and the ends.
        let printed = [
            (38, 1, 0.50),
            (118, 2, 0.44),
            (221, 3, 0.41),
            (347, 4, 0.38),
            (495, 5, 0.37),
            (663, 6, 0.35),
            (851, 7, 0.34),
            (1_058, 8, 0.33),
            (1_284, 9, 0.32),
            (1_529, 10, 0.31),
            (5_036, 20, 0.25),
            (10_661, 30, 0.21),
            (94_717, 73, 0.09),
        ];
        for (w, a, b) in printed {
            let row = rows[a as usize - 1];
            assert_eq!((row.window, row.increase), (w, a));
            assert!((row.decrease - b).abs() < 0.011, "b({w}) is {}, printed {b}", row.decrease);
        }
        assert_eq!(rows.len(), 73);
        // Table 3 of the RFC's section 5: a window of 83000 packets adds 70 and loses a tenth.
        assert!((decrease(83_000.0) - 0.1).abs() < 1e-9);
        assert!((increase(83_000.0) - 70.7).abs() < 0.2, "{}", increase(83_000.0));
    }
}
