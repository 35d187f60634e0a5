//! A plan from a stored profile: the best of its cells, and how long a transfer takes at what was
//! seen in it.

use super::cell::{Cell, TrafficDirection};
use super::document::{CellResult, Profile, ProfileKind};
use super::repetition::Repetition;
use crate::congestion::Algorithm;
use crate::plan::{
    ControlReason, Fastest, PathEstimate, PathPoint, Plan, PlanInput, PlanSource, Reason, Runs,
    TCP_WINDOW, TIE, finished,
};
use crate::statistics::Summary;
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate};

/// Plans a transfer of `size` from a stored profile, over the path of it called `path`, or its only
/// one; its data goes `way`, or the way of the profile, out where it has both. A scaled profile is
/// [at its full rate](Profile::at_full_rate) first.
///
/// The cell with the largest mean is taken, or one with fewer streams that is as good, over TCP
/// before other drivers, and never over one that would be
/// [unfair](super::ProfileDriver::unfair) to others; the time is
/// its ramp and the rest at its steady rate, a figure for each valid repetition: their mean is
/// expected, and the interval is where one more of them would be.
///
/// Of a node that was measured as fast as its operator allows nothing is known but that a copy is
/// no slower: [`Plan::ceiling_bps`]. Where every cell was, none is the best, and streams are those
/// that a copy begins with over a path so long.
///
/// # Errors
/// [`Fault::You`] when the profile has no such path, several and none was named, no such direction,
/// or no valid repetition of it.
pub fn plan_from(
    profile: &Profile,
    path: Option<&str>,
    way: Option<TrafficDirection>,
    size: Bytes,
) -> Result<Plan, Error> {
    let profile = &profile.at_full_rate();
    let names: Vec<&str> = profile.grid.paths.iter().map(|path| path.name.as_str()).collect();
    let wrong = |message: String| {
        Error::new(Fault::You, ErrorCode::PlanProfile, message)
            .hint(format!("its paths: {}", names.join(", ")))
    };
    let path = match path {
        Some(path) if names.contains(&path) => path,
        Some(path) => return Err(wrong(format!("the profile has no path called `{path}`"))),
        None if names.len() == 1 => names[0],
        None => return Err(wrong("the profile has several paths".to_owned())),
    };
    if size.0 == 0 {
        return Err(Error::new(
            Fault::You,
            ErrorCode::PlanNothing,
            "a plan needs a size above zero",
        ));
    }
    let way = way_of(profile, way)?;
    let cells = clean(profile, path, way);
    let (unfair, cells): (Vec<_>, Vec<_>) =
        cells.into_iter().partition(|(result, _)| result.cell.driver().unfair().is_some());
    let most = cells.iter().map(|(_, summary)| summary.mean).fold(0.0, f64::max);
    let good = cells
        .iter()
        .filter(|(_, summary)| summary.mean > 0.0 && summary.mean >= most / (1.0 + TIE));
    // Of what is as good the one that every node takes.
    let ease = |cell: &Cell| (cell.driver().channel().is_some(), cell.streams);
    let Some((result, _)) = good
        .min_by(|a, b| ease(&a.0.cell).cmp(&ease(&b.0.cell)).then(b.1.mean.total_cmp(&a.1.mean)))
    else {
        return Err(wrong(format!("the profile has no valid repetition over `{path}`")));
    };
    let cell = &result.cell;
    let seconds: Vec<f64> = result.valid().map(|repetition| seconds(repetition, size)).collect();
    if !seconds.iter().all(|seconds| seconds.is_finite()) {
        return Err(wrong(format!("in a repetition over `{path}` nothing arrived after the ramp")));
    }
    let ceiling = ceiling(profile, &cell.path);
    let is_at = |mean: f64| ceiling.is_some_and(|rate| mean >= AT_CEILING * rate.as_bps() as f64);
    let fastest = match ceiling {
        Some(rate) if is_at(most) => Fastest::Ceiling(rate),
        Some(_) => Fastest::Unknown,
        None => Fastest::Wire,
    };
    let are_alike = cells.iter().all(|(_, summary)| is_at(summary.mean));
    let input = PlanInput {
        path: match fastest {
            // What it holds is as a copy takes it to be.
            Fastest::Ceiling(_) => PathPoint {
                name: cell.path.name.clone(),
                ..PathPoint::custom(PathEstimate::RATE, cell.path.rtt_ns)
            },
            _ => cell.path.clone(),
        },
        // Whatever it is, it had its part in what was seen.
        is_queue_known: true,
        loss: cell.loss,
        window: cell.window_bytes,
        host: profile.grid.host_bps,
        mtu: cell.mtu,
        available: vec![cell.congestion],
        source: PlanSource::Profile,
    };
    let is_measured = profile.kind == ProfileKind::Measured;
    let channel = cell.driver().channel();
    let profiled = Reason::Profiled {
        is_measured,
        times: seconds.len(),
        date: profile.date.clone(),
        scale: profile.grid.scale,
        is_time_scaled: profile.grid.time_scaled,
    };
    let alone = result.valid().next().and_then(|one| {
        let relative = off_alone(one, profile.grid.sample_s, seconds.first().copied()?)?;
        Some(relative * seconds.first()?)
    });
    let runs = match is_measured {
        true => Runs::Measured(&seconds, alone, fastest),
        false => Runs::Modelled(&seconds),
    };
    if are_alike {
        let (choice, mut reasons) = usual(&cells, size);
        reasons.push(profiled);
        return Ok(finished(&input, size, choice, &runs, reasons));
    }
    let mut reasons = vec![
        Reason::BestCell {
            streams: cell.streams,
            control: cell.congestion,
            cells: cells.len(),
            path: path.to_owned(),
            is_back: way == TrafficDirection::Back,
            channel,
        },
        profiled,
    ];
    let faster = unfair.iter().max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let faster = faster.filter(|(_, summary)| summary.mean > most * (1.0 + TIE));
    reasons.extend(faster.and_then(|(result, summary)| {
        let driver = result.cell.driver();
        let (channel, times) = (driver.name(), summary.mean / most);
        Some(Reason::Unfair { channel, times, why: driver.unfair()? })
    }));
    let plan = finished(&input, size, (cell.congestion, cell.streams), &runs, reasons);
    Ok(Plan { channel, ..plan })
}

/// A mean from this part of a ceiling on is the ceiling's: pacing counts headers, and a ramp has
/// its part in the mean.
const AT_CEILING: f64 = 0.9;

/// The rate at which the node at the end of `path` lets itself be measured, where that is the least
/// limit that is known: a lower rate, of the path or the host, was told by the user.
fn ceiling(profile: &Profile, path: &PathPoint) -> Option<Rate> {
    profile.environment.node.as_ref()?;
    profile.grid.host_bps.filter(|&host| host == path.rate_bps)
}

/// The streams that a copy of `size` begins with over the path of `cells`, of which none is better
/// than another, the most usual of their controls, and why.
fn usual(cells: &[(&CellResult, Summary)], size: Bytes) -> ((Algorithm, u32), Vec<Reason>) {
    let controls = || cells.iter().map(|(result, _)| result.cell.congestion);
    let taken = controls().find(|&one| one == Algorithm::Cubic).or_else(|| controls().next());
    let control = taken.unwrap_or(Algorithm::Cubic);
    let window = cells.iter().filter_map(|(result, _)| result.cell.window_bytes).max();
    let begins = PathEstimate {
        rtt: cells.first().map(|(result, _)| result.cell.path.rtt_ns).unwrap_or_default(),
        window: window.unwrap_or(TCP_WINDOW),
        available: vec![control.into()],
        default_congestion: control.into(),
        fq: None,
    };
    let (streams, why) = begins.streams(Some(size));
    let reasons =
        vec![Reason::Streams(streams, why), Reason::Control(control.into(), ControlReason::Alike)];
    ((control, streams), reasons)
}

/// The way that is planned for: `asked`, if the profile has it. Both ways at once are another
/// quantity than one.
fn way_of(profile: &Profile, asked: Option<TrafficDirection>) -> Result<TrafficDirection, Error> {
    let one_way = [TrafficDirection::Out, TrafficDirection::Back];
    let ways = &profile.grid.directions;
    let found = one_way
        .into_iter()
        .find(|way| ways.contains(way) && asked.is_none_or(|asked| asked == *way));
    found.ok_or_else(|| {
        let has = ways.iter().map(|way| way.name()).collect::<Vec<_>>().join(", ");
        let wanted = asked.map_or("out and none that goes back", TrafficDirection::name);
        Error::new(
            Fault::You,
            ErrorCode::PlanProfile,
            format!("the profile has no data that goes {wanted}"),
        )
        .hint(format!("its directions: {has}; `both` is both ways at once"))
    })
}

/// Cells of `path` whose data goes `way` and alone: cross-traffic and loss are conditions, not
/// choices.
fn clean<'a>(
    profile: &'a Profile,
    path: &str,
    way: TrafficDirection,
) -> Vec<(&'a CellResult, Summary)> {
    let least = |pick: fn(&Cell) -> f64| {
        profile.cells.iter().map(|result| pick(&result.cell)).fold(f64::INFINITY, f64::min)
    };
    let (cross, loss) = (least(|cell| cell.cross_bps.as_bps() as f64), least(|cell| cell.loss));
    let is_clean = |cell: &Cell| {
        cell.path.name == path
            && cell.direction == way
            && cell.cross_bps.as_bps() as f64 == cross
            && cell.loss == loss
    };
    let cells = profile.plain().filter(|result| is_clean(&result.cell));
    cells.filter_map(|result| result.summary().map(|summary| (result, summary))).collect()
}

/// How long `size` takes at what `repetition` saw: its ramp, and the rest at its steady rate.
/// Infinite where that is none.
fn seconds(repetition: &Repetition, size: Bytes) -> f64 {
    let in_ramp = repetition.ramp.receiver_bps.as_bps() as f64 * repetition.ramp_s / 8.0;
    let rest = size.0 as f64 - in_ramp;
    if rest <= 0.0 {
        return repetition.ramp_s * size.0 as f64 / in_ramp;
    }
    repetition.ramp_s + rest * 8.0 / repetition.steady.receiver_bps.as_bps() as f64
}

/// Parts of a repetition whose rates are held against each other.
const PARTS: usize = 5;

/// By what part of itself a transfer's time may be off, in 19 of 20 cases, from what one repetition
/// saw: its steady time's fifths are taken for independent, as means of batches are (Law,
/// "Simulation Modeling and Analysis", section 9.5.3). The repetition's mean is that of five, the
/// transfer's of as many as it has time for.
fn off_alone(repetition: &Repetition, sample_s: f64, seconds: f64) -> Option<f64> {
    let from = (repetition.ramp_s / sample_s).round() as usize;
    let samples = repetition.samples_bps.get(from..)?;
    let len = samples.len() / PARTS;
    if len == 0 {
        return None;
    }
    let mean =
        |part: &[Rate]| part.iter().map(|rate| rate.as_bps() as f64).sum::<f64>() / len as f64;
    let means: Vec<f64> = samples.chunks_exact(len).take(PARTS).map(mean).collect();
    let parts = Summary::of(&means)?;
    let there = (seconds / (len as f64 * sample_s)).max(1.0);
    // Of n values one more is off by t sd sqrt(1 + 1/n), a mean of m more by t sd sqrt(1/m + 1/n).
    let (_, high) = parts.prediction95()?;
    let n = parts.n as f64;
    Some((high - parts.mean) / parts.mean * ((1.0 / there + 1.0 / n) / (1.0 + 1.0 / n)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::IntervalReason;
    use crate::profile::{Form, Grid, PathPoint, Repetitions, preset};
    use crate::units::Span;

    #[test]
    fn a_stored_profile_decides_where_there_is_one() {
        let mut grid = preset("sc08-distance", Form::Quick).expect("a preset");
        grid.paths.retain(|path| path.name != "usn-0.2");
        let profile = Profile::modelled(grid);
        let plan =
            plan_from(&profile, Some("usn-8600"), None, Bytes(1_000_000_000_000)).expect("a plan");
        let best = |streams: u32, congestion| {
            let of = |result: &&super::super::CellResult| {
                let cell = &result.cell;
                (cell.path.name.as_str(), cell.streams, cell.congestion)
                    == ("usn-8600", streams, congestion)
            };
            profile
                .cells
                .iter()
                .find(of)
                .and_then(|result| result.summary())
                .expect("measured")
                .mean
        };
        let chosen = best(plan.streams, plan.congestion);
        for streams in [1, 5, 10, 15, 20] {
            for congestion in [Algorithm::Bic, Algorithm::HTcp] {
                assert!(best(streams, congestion) <= chosen * 1.021, "{streams} {congestion}");
            }
        }
        assert_eq!(plan.source, PlanSource::Profile);
        assert!(plan_from(&profile, None, None, Bytes(1)).is_err(), "three paths and none named");
        assert!(plan_from(&profile, Some("mars"), None, Bytes(1)).is_err());
    }

    /// A profile of two numbers of streams over `usn-1400`, scaled by `k`.
    fn small(k: u32, directions: Vec<TrafficDirection>) -> Profile {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid {
            streams: vec![1, 4],
            mtus: vec![9_000],
            directions,
            ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
        };
        Profile::modelled(grid.scaled(k).expect("jumbo frames"))
    }

    #[test]
    fn a_scaled_profile_gives_the_plan_of_the_full_rate() {
        let size = Bytes(1_000_000_000_000);
        let plan = |k| {
            plan_from(&small(k, vec![TrafficDirection::Out]), None, None, size).expect("a plan")
        };
        let (full, scaled) = (plan(1), plan(6));
        // Headers are a larger part of small packets, nothing else.
        assert!((scaled.seconds / full.seconds - 1.0).abs() < 0.06, "{full:?} {scaled:?}");
        let window = scaled.window_bytes.0 as f64 / full.window_bytes.0 as f64
            * f64::from(scaled.streams)
            / f64::from(full.streams);
        assert!((window - 1.0).abs() < 1e-3, "{full:?} {scaled:?}");
        assert!(
            scaled.reasons[1].to_string().contains("scaled 6")
                && !full.reasons[1].to_string().contains("scaled"),
            "{scaled:?}"
        );
    }

    #[test]
    fn a_plan_for_one_way_is_from_what_went_that_way() {
        let mut both_ways = small(1, vec![TrafficDirection::Back, TrafficDirection::Out]);
        for result in both_ways
            .cells
            .iter_mut()
            .filter(|result| result.cell.direction == TrafficDirection::Out)
        {
            result
                .repetitions
                .iter_mut()
                .for_each(|one| one.steady.receiver_bps = Rate::from_bps(1_000_000_000));
        }
        let plan = |profile: &Profile, way| plan_from(profile, None, way, Bytes(1_000_000_000_000));
        let rate = |way| plan(&both_ways, way).expect("a plan").rate_bps.as_bps();
        assert!(
            (900_000_000..1_100_000_000).contains(&rate(Some(TrafficDirection::Out))),
            "{}",
            rate(Some(TrafficDirection::Out))
        );
        assert!(
            rate(Some(TrafficDirection::Back)) > 8_000_000_000
                && rate(None) == rate(Some(TrafficDirection::Out))
        );
        let back = small(1, vec![TrafficDirection::Back]);
        assert!(
            plan(&back, None)
                .is_ok_and(|plan| plan.reasons[0].to_string().contains("back over usn-1400"))
        );
        let error = plan(&back, Some(TrafficDirection::Out)).expect_err("there is none");
        assert!(
            error.code == ErrorCode::PlanProfile && error.message.contains("goes out"),
            "{error}"
        );
        assert!(
            plan(&small(1, vec![TrafficDirection::Both]), None).is_err(),
            "both at once are no plan for one"
        );
    }

    #[test]
    fn an_interval_is_students_or_for_one_run_an_assumption() {
        let mut profile = small(1, vec![TrafficDirection::Out]);
        profile.kind = ProfileKind::Measured;
        let gbit = |tenths: u64| Rate::from_bps(tenths * 100_000_000);
        let steady = |profile: &mut Profile, rates: &[u64]| {
            for result in &mut profile.cells {
                result.repetitions.truncate(rates.len());
                for (one, rate) in result.repetitions.iter_mut().zip(rates) {
                    (one.ramp_s, one.steady.receiver_bps, one.whole.receiver_bps) =
                        (0.0, gbit(*rate), gbit(*rate));
                }
            }
            plan_from(profile, None, None, Bytes(1_000_000_000)).expect("a plan")
        };
        let three = steady(&mut profile, &[38, 40, 42]);
        // 8 Gbit at 3.8, 4.0 and 4.2 Gbit/s: 2.105, 2 and 1.905 s, so sd = 0.1003; t = 4.303 of two
        // degrees, and sqrt(1 + 1/3).
        assert!((three.interval_s.1 - three.seconds - 0.498).abs() < 0.002, "{three:?}");
        // Nothing but 4.25 round trips of set-up is added.
        let set_up = 4.25 * profile.grid.paths[0].rtt_ns.as_secs_f64();
        assert!((three.seconds - 2.0034 - set_up).abs() < 1e-3, "{three:?}");
        assert!(
            three.reasons.contains(&Reason::Interval(IntervalReason::Repetitions(3))),
            "{three:?}"
        );
        let one = steady(&mut profile, &[40]);
        assert!(
            (one.interval_s.0 - 1.8 - set_up).abs() < 1e-9
                && (one.interval_s.1 - 2.5 - set_up).abs() < 1e-9
                && one.reasons.contains(&Reason::Interval(IntervalReason::Assumed {
                    below: 0.1,
                    above: 0.25,
                    at_wire: false
                })),
            "{one:?}"
        );
        // Nothing arrives: no rate is made up.
        for result in &mut profile.cells {
            result.repetitions[0].steady.receiver_bps = Rate::default();
        }
        assert!(plan_from(&profile, None, None, Bytes(1)).is_err());
    }

    /// A node over 40 ms that may be measured at 20 Mbit/s, whose cells of 1 and 4 streams had
    /// these rates in tenths of Mbit/s.
    fn at_a_node(one: u64, four: u64) -> Profile {
        let rate = Rate::from_bps(20_000_000);
        let path = PathPoint::custom(rate, Span::from_millis(40));
        let grid = Grid {
            streams: vec![1, 4],
            host_bps: Some(rate),
            repetitions: Repetitions { least: 1, most: 1, half_width: 0.0 },
            seconds: 4.0,
            ..Grid::new("probe", vec![path], vec![Algorithm::Bbr, Algorithm::Cubic])
        };
        let mut profile = Profile::modelled(grid);
        (profile.kind, profile.environment.node) =
            (ProfileKind::Measured, Some("there:2811".to_owned()));
        for result in &mut profile.cells {
            let rate = if result.cell.streams == 1 { one } else { four } * 100_000;
            for one in &mut result.repetitions {
                (one.ramp_s, one.samples_bps) = (0.0, Vec::new());
                let all = [&mut one.steady, &mut one.whole, &mut one.ramp];
                all.into_iter().for_each(|part| part.receiver_bps = Rate::from_bps(rate));
            }
        }
        profile
    }

    #[test]
    fn a_nodes_ceiling_is_a_lower_bound_and_no_choice() {
        let size = Bytes(1_000_000_000_000);
        let plan = |one, four| plan_from(&at_a_node(one, four), None, None, size).expect("a plan");
        let held = plan(196, 197);
        let words: Vec<String> = held.reasons.iter().map(Reason::to_string).collect();
        let words = words.join("\n");
        assert_eq!(held.ceiling_bps, Some(Rate::from_bps(20_000_000)), "{held:?}");
        assert!(held.interval_s.0 < 1.0 && held.interval_s.1 > held.seconds * 1.05, "{held:?}");
        assert!(words.contains("measured at 20.0 Mbit/s at most") && words.contains("faster"));
        assert!(!words.contains("the best of"), "{words}");
        assert_eq!(held.congestion, Algorithm::Cubic, "not the first that reached the ceiling");
        // Where some did not reach it, those that did are better, and as fast at least.
        let some = plan(80, 197);
        assert_eq!((some.streams, some.ceiling_bps), (4, held.ceiling_bps), "{some:?}");
        // And where none did, the path is known; the ceiling is not its wire.
        let none = plan(80, 179);
        assert_eq!((none.streams, none.ceiling_bps), (4, None), "{none:?}");
        let share = none.interval_s.0 / none.seconds;
        assert!((share - 0.9).abs() < 0.001, "{none:?}");
        // A rate that the user told is one.
        let mut told = at_a_node(196, 197);
        told.grid.host_bps = Some(Rate::from_bps(30_000_000));
        let told = plan_from(&told, None, None, size).expect("a plan");
        let reason = told.reasons.iter().find(|one| matches!(one, Reason::Interval(_)));
        let reason = reason.expect("an interval").to_string();
        assert!(told.ceiling_bps.is_none() && reason.contains("as far as the wire"), "{reason}");
    }
}
