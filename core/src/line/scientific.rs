//! Numbers of many magnitudes as people read them.

/// `value` with `digits` digits behind the point and a power of ten: `4.20e-7`; nothing is `0`.
pub fn scientific(value: f64, digits: usize) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.digits$e}") }
}

/// `one` of one, and `many` of any other count.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_power_and_one_is_one() {
        assert_eq!([0.0, 4.2e-7].map(|value| scientific(value, 2)), ["0", "4.20e-7"]);
        assert_eq!(counted(1, "error", "errors"), "1 error");
        assert_eq!(counted(0, "error", "errors"), "0 errors");
    }
}
