//! What `farline link` prints about links: text for people, JSON for programs.

use crate::output::Output;
use crate::output::line;
use farline::link::{Accuracy, DirectionStats, Info, Link, Side, Stats};
use farline_core::units::{Bytes, Span};
use farline_core::wan::{Direction, Path};
use serde_json::{Value, json};

/// A link that has come up.
pub(super) fn up(info: &Info, output: &Output) {
    if output.json() {
        line!("{}", object("farline/link/1", described(info)));
        return;
    }
    line!("link {} is up: {}", info.name, summary(info));
    for side in [Side::A, Side::B] {
        line!("  {}  {}  {}", info.namespace(side), info.address(side), info.address6(side));
    }
    line!("use it:       farline link exec {} a -- CMD", info.name);
    line!("take it down: farline link down {}", info.name);
}

/// All links, and the named paths.
pub(super) fn list(links: &[Link], output: &Output) {
    if output.json() {
        let links: Vec<Value> = links
            .iter()
            .map(|link| {
                let mut value = described(link.info());
                value["alive"] = link.is_alive().into();
                value
            })
            .collect();
        line!("{}", json!({ "schema": "farline/links/1", "links": links, "paths": Path::all() }));
        return;
    }
    for link in links {
        let dead = if link.is_alive() { "" } else { "  (its emulator is dead: take it down)" };
        line!("{:<18} {}{dead}", link.info().name, summary(link.info()));
    }
    if links.is_empty() {
        line!("no link is up; paths to make one from (farline link up PATH):");
        for path in Path::all() {
            let rtt = path.rtt.map(|rtt| rtt.to_string()).unwrap_or_default();
            line!("  {:<17} {rtt:>8}  {}", path.name, path.about);
        }
    }
}

/// How exact a link is.
pub(super) fn stats(stats: &Stats, output: &Output) {
    if output.json() {
        line!(
            "{}",
            object("farline/link-stats/1", serde_json::to_value(stats).unwrap_or_default())
        );
        return;
    }
    line!(
        "link {}: {}, up {:.1} s{}",
        stats.name,
        verdict(stats),
        stats.uptime_seconds,
        priority(stats)
    );
    for reason in &stats.invalid_because {
        line!("  {reason}");
    }
    line!("{:<26} {:>15} {:>15}", "", "a to b", "b to a");
    let (there, back) = (&stats.a_to_b, &stats.b_to_a);
    let row = |name: &str, value: &dyn Fn(&DirectionStats) -> String| {
        line!("{name:<26} {:>15} {:>15}", value(there), value(back))
    };
    row("frames offered", &|side| side.model.frames.to_string());
    row("frames delivered", &|side| side.model.delivered_frames.to_string());
    row("bytes of IP delivered", &|side| Bytes(side.model.delivered_bytes).to_string());
    row("dropped: queue full", &|side| side.model.dropped_queue.to_string());
    row("dropped: loss", &|side| side.model.dropped_loss.to_string());
    row("dropped: bit error", &|side| side.model.dropped_bit_error.to_string());
    row("dropped: outage", &|side| side.model.dropped_outage.to_string());
    row("flipped, checksum valid", &|side| side.model.flipped_frames.to_string());
    row("overrun (lack of CPU)", &|side| side.overrun.to_string());
    for (name, pick) in [
        ("written late", lateness as fn(&DirectionStats) -> &Accuracy),
        ("read late, at most", stamping),
    ] {
        row(&format!("{name}: median"), &|side| micros(pick(side).p50_us));
        row(&format!("{name}: 99 %"), &|side| micros(pick(side).p99_us));
        row(&format!("{name}: worst"), &|side| micros(pick(side).max_us));
    }
    line!(
        "written late, share of packets up to each bound (limit for 99 %: {}):",
        micros(stats.lateness_limit_us)
    );
    let longest = there.lateness.buckets.len().max(back.lateness.buckets.len());
    for place in 0..longest {
        let share = |accuracy: &Accuracy| match accuracy.buckets.get(place) {
            Some(&(_, count)) if count > 0 => {
                format!("{:.3} %", 100.0 * count as f64 / accuracy.count as f64)
            }
            _ => "-".to_owned(),
        };
        let bound = there
            .lateness
            .buckets
            .get(place)
            .or(back.lateness.buckets.get(place))
            .map_or(0, |bucket| bucket.0);
        line!(
            "{:>26} {:>15} {:>15}",
            micros(bound as f64),
            share(&there.lateness),
            share(&back.lateness)
        );
    }
}

/// What a run's link was like, on standard error: standard output is the command's.
pub(super) fn end_of_run(stats: &Stats, output: &Output) {
    if output.json() {
        eprintln!(
            "{}",
            object("farline/link-stats/1", serde_json::to_value(stats).unwrap_or_default())
        );
        return;
    }
    let dropped = stats.a_to_b.model.dropped() + stats.b_to_a.model.dropped();
    let worst = stats.a_to_b.lateness.p99_us.max(stats.b_to_a.lateness.p99_us);
    eprintln!(
        "farline: link {}: {}; 99 % of packets at most {} late; {dropped} frames dropped by the \
         model",
        stats.name,
        verdict(stats),
        micros(worst)
    );
    for reason in &stats.invalid_because {
        eprintln!("farline:   {reason}");
    }
}

fn lateness(side: &DirectionStats) -> &Accuracy {
    &side.lateness
}

fn stamping(side: &DirectionStats) -> &Accuracy {
    &side.stamping
}

fn verdict(stats: &Stats) -> &'static str {
    if stats.valid { "valid" } else { "INVALID, do not believe results measured over it" }
}

fn priority(stats: &Stats) -> &'static str {
    if stats.realtime { "" } else { ", without real-time priority" }
}

fn micros(value: f64) -> String {
    Span::from_secs_f64(value / 1e6).to_string()
}

fn summary(info: &Info) -> String {
    let (there, back) = (&info.wan.a_to_b, &info.wan.b_to_a);
    let mut text = format!("{}, rtt {}, rate {}", info.path, info.wan.rtt(), there.rate);
    if back.rate != there.rate {
        text += &format!(" there and {} back", back.rate);
    }
    text += &format!(", queue {}, mtu {}", there.queue, info.mtu);
    let clean = |direction: &Direction| {
        direction.loss + direction.ber + direction.flips == 0.0 && direction.jitter == Span::ZERO
    };
    if !clean(there) || !clean(back) || !info.wan.script.is_empty() {
        text += ", impaired";
    }
    text
}

fn described(info: &Info) -> Value {
    let mut value = serde_json::to_value(info).unwrap_or_default();
    let sides = [Side::A, Side::B].map(|side| {
        json!({ "side": side, "namespace": info.namespace(side), "address": info.address(side), "address6": info.address6(side) })
    });
    value["sides"] = sides.to_vec().into();
    value["rtt_us"] = (info.wan.rtt().as_nanos() as f64 / 1e3).into();
    value
}

/// `value` with its schema put first.
fn object(schema: &str, value: Value) -> Value {
    let mut object = json!({ "schema": schema });
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), value) {
        object.extend(fields);
    }
    object
}
