//! A plan from a stored profile: the best of its cells, and how long a transfer takes at what was seen in it.

use super::advisor::{Known, Plan, Source, TIE, finished};
use super::document::{Kind, Profile};
use crate::units::{Bytes, Error, Fault};

/// Plans a transfer of `size` from a stored profile, over the path of it called `path`, or its only one.
///
/// The cell with the largest mean is taken, or one with fewer streams that is as good; the time is its ramp and the rest at its
/// steady rate, between the ends of its confidence interval.
///
/// # Errors
/// [`Fault::You`] when the profile has no such path, several and none was named, or no valid repetition of it.
pub fn plan_from(profile: &Profile, path: Option<&str>, size: Bytes) -> Result<Plan, Error> {
    let names: Vec<&str> = profile.grid.paths.iter().map(|path| path.name.as_str()).collect();
    let wrong =
        |message: String| Error::new(Fault::You, "plan-profile", message).hint(format!("its paths: {}", names.join(", ")));
    let path = match path {
        Some(path) if names.contains(&path) => path,
        Some(path) => return Err(wrong(format!("the profile has no path called `{path}`"))),
        None if names.len() == 1 => names[0],
        None => return Err(wrong("the profile has several paths".to_owned())),
    };
    if size.0 == 0 {
        return Err(Error::new(Fault::You, "plan-nothing", "a plan needs a size above zero"));
    }
    // Cells of the clean path; cross-traffic and loss are conditions, not choices, and both ways at once are another quantity.
    let least =
        |pick: fn(&super::Cell) -> f64| profile.cells.iter().map(|result| pick(&result.cell)).fold(f64::INFINITY, f64::min);
    let (cross, loss) = (least(|cell| cell.cross_bps.as_bps() as f64), least(|cell| cell.loss));
    let cells: Vec<_> = profile
        .one_way()
        .filter(|result| {
            let cell = &result.cell;
            cell.path.name == path && cell.cross_bps.as_bps() as f64 == cross && cell.loss == loss
        })
        .filter_map(|result| result.summary().map(|summary| (result, summary)))
        .collect();
    let most = cells.iter().map(|(_, summary)| summary.mean).fold(0.0, f64::max);
    let good = cells.iter().filter(|(_, summary)| summary.mean > 0.0 && summary.mean >= most / (1.0 + TIE));
    let Some((result, _)) = good.min_by(|a, b| a.0.cell.streams.cmp(&b.0.cell.streams).then(b.1.mean.total_cmp(&a.1.mean)))
    else {
        return Err(wrong(format!("the profile has no valid repetition over `{path}`")));
    };
    let cell = &result.cell;
    let seconds: Vec<f64> = result
        .valid()
        .map(|repetition| {
            let in_ramp = repetition.ramp.receiver_bps.as_bps() as f64 * repetition.ramp_s / 8.0;
            let rest = (size.0 as f64 - in_ramp).max(0.0);
            let ramp = if rest > 0.0 { repetition.ramp_s } else { repetition.ramp_s * size.0 as f64 / in_ramp.max(1.0) };
            ramp + rest * 8.0 / (repetition.steady.receiver_bps.as_bps() as f64).max(1.0)
        })
        .collect();
    let known = Known {
        path: cell.path.clone(),
        loss: cell.loss,
        window: cell.window_bytes,
        host: profile.grid.host_bps,
        mtu: cell.mtu,
        available: vec![cell.congestion],
        source: Source::Profile,
    };
    let n = seconds.len();
    let reasons = vec![
        format!(
            "{} with {}: the best of {} cells over {path}, or as good with fewer streams",
            cell.streams,
            cell.congestion,
            cells.len()
        ),
        format!(
            "{} {} on {}",
            if profile.kind == Kind::Measured { "measured" } else { "modelled" },
            if n == 1 { "once".to_owned() } else { format!("{n} times") },
            if profile.date.is_empty() { "an unknown date" } else { &profile.date }
        ),
    ];
    Ok(finished(&known, size, cell.congestion, cell.streams, &seconds, Source::Profile, reasons))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;

    #[test]
    fn a_stored_profile_decides_where_there_is_one() {
        use crate::profile::{Environment, Form, Kind, Simulator, preset};
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name != "usn-0.2");
        let mut profile = Profile::new(grid, Kind::Modelled, Environment::default(), "today").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model does not fail");
        let plan = plan_from(&profile, Some("usn-8600"), Bytes(1_000_000_000_000)).expect("a plan");
        let best = |streams: u32, congestion| {
            let of = |result: &&super::super::CellResult| {
                let cell = &result.cell;
                (cell.path.name.as_str(), cell.streams, cell.congestion) == ("usn-8600", streams, congestion)
            };
            profile.cells.iter().find(of).and_then(|result| result.summary()).expect("measured").mean
        };
        let chosen = best(plan.streams, plan.congestion);
        for streams in [1, 5, 10, 15, 20] {
            for congestion in [Algorithm::Bic, Algorithm::HTcp] {
                assert!(best(streams, congestion) <= chosen * 1.021, "{streams} {congestion}");
            }
        }
        assert_eq!(plan.source, Source::Profile);
        assert!(plan_from(&profile, None, Bytes(1)).is_err(), "three paths and none named");
        assert!(plan_from(&profile, Some("mars"), Bytes(1)).is_err());
    }
}
