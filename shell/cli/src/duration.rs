//! Times in words for people.

/// A time for people: `24 ms`, `2.50 s`, `40 s`, `12 min`, `15.0 h`, `3.5 days`.
pub(crate) fn duration(seconds: f64) -> String {
    in_unit(seconds, unit_of(seconds))
}

/// Times that stand next to each other, all in the unit of the least.
#[cfg(feature = "profile")]
pub(crate) fn durations<const N: usize>(seconds: [f64; N]) -> [String; N] {
    let least = seconds.into_iter().fold(f64::INFINITY, f64::min);
    seconds.map(|seconds| in_unit(seconds, unit_of(least)))
}

/// The name of the unit, and its seconds.
fn unit_of(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s < 1.0 => ("ms", 1e-3),
        s if s < 300.0 => ("s", 1.0),
        s if s < 7_200.0 => ("min", 60.0),
        s if s < 172_800.0 => ("h", 3_600.0),
        _ => ("days", 86_400.0),
    }
}

fn in_unit(seconds: f64, (unit, length): (&str, f64)) -> String {
    let value = seconds / length;
    match unit {
        "ms" => format!("{:.0} ms", value.max(1.0)),
        "s" if value < 10.0 => format!("{value:.2} s"),
        "h" => format!("{value:.1} h"),
        "days" if value < 10.0 => format!("{value:.1} days"),
        _ => format!("{value:.0} {unit}"),
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

    #[test]
    fn times_next_to_each_other_have_one_unit() {
        let told = durations([172_900.0, 160_920.0, 190_080.0]);
        assert_eq!(told, ["48.0 h", "44.7 h", "52.8 h"]);
        assert_eq!(durations([310.0, 299.0]), ["310 s", "299 s"]);
        assert_eq!(durations([1.2, 0.9]), ["1200 ms", "900 ms"]);
    }
}
