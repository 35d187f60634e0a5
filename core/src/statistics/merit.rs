//! Figures of merit: decrease per mile, fairness, utilisation and concavity.

/// SC08's decrease per mile, section III.A: what throughput lost against the base length, over the
/// miles between them.
///
/// In the throughputs' unit per mile; negative where the longer path is faster. `None` where the
/// lengths are the same.
pub fn decrease_per_mile(
    (base_miles, base): (f64, f64),
    (miles, throughput): (f64, f64),
) -> Option<f64> {
    (miles != base_miles).then(|| (base - throughput) / (miles - base_miles))
}

/// Jain's index of how evenly `shares` are spread: 1 for equal ones, 1/n when one has all (Jain,
/// Chiu, Hawe 1984, DEC-TR-301).
///
/// `None` without shares, or when all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// One number from 0 to 1 for a profile of throughput against rtt: half of it how much of
/// `capacity` is used over the whole range, half how concave the profile is.
///
/// Points are (rtt, throughput), in ascending rtt. Utilisation is the area below the profile over
/// that below `capacity`; concavity is 1/2 plus the area between the profile and the straight line
/// that joins its ends, over the area of the box around those ends (a straight line has 1/2, a
/// profile that falls only at its end 1, one that falls at once 0). Rao et al., TRIDENTCOM 2018,
/// name such a coefficient and its range; this form is ours. `None` for fewer than two rtts.
pub fn utilisation_concavity(points: &[(f64, f64)], capacity: f64) -> Option<f64> {
    let (&(first, top), &(last, end)) = (points.first()?, points.last()?);
    let range = last - first;
    if range <= 0.0 || capacity <= 0.0 {
        return None;
    }
    let area: f64 =
        points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum();
    let utilisation = (area / (capacity * range)).clamp(0.0, 1.0);
    let fall = (top - end).abs();
    let bulge = if fall > 0.0 { (area - range * (top + end) / 2.0) / (range * fall) } else { 0.0 };
    Some((utilisation + (0.5 + bulge).clamp(0.0, 1.0)) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_straight_a_hollow_and_a_full_profile() {
        let straight = [(0.0, 10.0), (5.0, 5.0), (10.0, 0.0)];
        assert_eq!(utilisation_concavity(&straight, 10.0), Some(0.5));
        let full = [(0.0, 10.0), (9.999, 10.0), (10.0, 0.0)];
        assert!(utilisation_concavity(&full, 10.0).is_some_and(|value| value > 0.999));
        let hollow = [(0.0, 10.0), (0.001, 0.0), (10.0, 0.0)];
        assert!(utilisation_concavity(&hollow, 10.0).is_some_and(|value| value < 0.001));
        // Throughput that does not fall at all uses everything; a line is neither concave nor
        // convex.
        assert_eq!(utilisation_concavity(&[(0.0, 9.0), (100.0, 9.0)], 9.0), Some(0.75));
        assert_eq!(utilisation_concavity(&[(1.0, 9.0)], 9.0), None);
    }

    #[test]
    fn the_decrease_per_mile_of_equal_lengths_does_not_exist() {
        assert_eq!(decrease_per_mile((0.2, 9.0), (0.2, 8.0)), None);
        assert_eq!(decrease_per_mile((0.0, 9.0), (1_000.0, 8.0)), Some(0.001));
    }

    proptest! {
        #[test]
        fn fairness_lies_between_one_nth_and_one_and_knows_no_unit(shares in prop::collection::vec(0.001f64..1e3, 1..40)) {
            let index = jain(&shares).expect("positive shares");
            prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / shares.len() as f64 - 1e-12);
            let scaled: Vec<f64> = shares.iter().map(|share| share * 8.0).collect();
            prop_assert!((jain(&scaled).expect("positive shares") - index).abs() < 1e-12);
            prop_assert!((jain(&[shares[0]; 7]).expect("positive shares") - 1.0).abs() < 1e-12);
        }

        #[test]
        fn utilisation_and_concavity_stay_in_their_range(mut points in prop::collection::vec((0.0f64..366.0, 0.0f64..10.0), 2..12)) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if let Some(value) = utilisation_concavity(&points, 10.0) {
                prop_assert!((0.0..=1.0).contains(&value), "{value}");
            }
        }
    }
}
