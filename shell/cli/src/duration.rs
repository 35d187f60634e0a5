//! Times in words for people.

/// A time for people: `24 ms`, `2.50 s`, `40 s`, `12 min`, `15.0 h`, `3.5 days`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", (s * 1e3).max(1.0)),
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 300.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s if s < 864_000.0 => format!("{:.1} days", s / 86_400.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_a_unit_that_fits() {
        let told = [0.0241, 2.5, 40.0, 119.0, 720.0, 7_199.0, 7_200.0, 34_620.0, 302_400.0, 1e7];
        let expected = [
            "24 ms", "2.50 s", "40 s", "119 s", "12 min", "120 min", "2.0 h", "9.6 h", "3.5 days",
            "116 days",
        ];
        assert_eq!(told.map(duration), expected);
    }
}
