//! How controls, loads and traces are printed.

use crate::output::Output;
use farline::kernelcc::{
    CcGuard, CcOrigin, FlowSample, Listed, Origin, available, default_control,
};
use farline_core::congestion::ControlName;
use farline_core::units::Error;
use serde::Serialize;

#[derive(Serialize)]
struct ListDocument<'a> {
    schema: &'static str,
    default: Option<ControlName>,
    controls: &'a [Listed],
}

pub(super) fn list(controls: &[Listed], output: &Output) -> Result<(), Error> {
    let mut text = format!("{:<16} {:<30} {:>5}  {}", "name", "from", "flows", "who may use it");
    for listed in controls {
        let from = match &listed.origin {
            Origin::Brought => "can be loaded (farline cc load)".to_owned(),
            Origin::Module => "kernel module".to_owned(),
            Origin::Pinned => "farline, pinned".to_owned(),
            Origin::Process(process) => format!("farline, process {process}"),
            Origin::Held => "farline, another process".to_owned(),
            Origin::Unknown => "unknown, no permission to look".to_owned(),
            _ => "kernel".to_owned(),
        };
        let flows = match (&listed.origin, listed.flows) {
            (Origin::Brought, _) => String::new(),
            (_, None) => "?".to_owned(),
            (_, Some(flows)) => flows.to_string(),
        };
        let who = match listed {
            Listed { origin: Origin::Brought, .. } => "",
            Listed { default: true, .. } => "everybody; the default",
            Listed { allowed: true, .. } => "everybody",
            _ => "CAP_NET_ADMIN",
        };
        text.push_str(format!("\n{:<16} {from:<30} {flows:>5}  {who}", listed.name).trim_end());
    }
    output.result(
        &ListDocument { schema: "farline/cc-list/1", default: default_control(), controls },
        text,
    )
}

#[derive(Serialize)]
struct LoadDocument {
    schema: &'static str,
    name: ControlName,
    source: CcOrigin,
    set: Option<String>,
    pinned: bool,
    available: Vec<ControlName>,
}

pub(super) fn loaded(guard: &CcGuard, pin: bool, output: &Output) -> Result<(), Error> {
    let name = guard.name;
    // There is nothing to pin of what was there before.
    let pinned = pin && guard.source == CcOrigin::Bpf;
    let set = guard.set.map(|set| set.to_string());
    let text = match guard.source {
        CcOrigin::Bpf => {
            let until = if pinned { "`farline cc unload`" } else { "this command ends" };
            format!(
                "{name}: loaded in BPF with the {} constants, until {until}",
                set.as_deref().unwrap_or("linux")
            )
        }
        CcOrigin::Module => format!("{name}: loaded as the kernel module tcp_{name}; it stays"),
        CcOrigin::Farline => format!(
            "{name}: Farline has it registered already, pinned or held by a process; nothing to \
             load"
        ),
        _ => format!("{name}: this kernel has it; nothing to load"),
    };
    let source = guard.source;
    output.result(
        &LoadDocument {
            schema: "farline/cc-load/1",
            name,
            source,
            set,
            pinned,
            available: available(),
        },
        text,
    )
}

#[derive(Serialize)]
struct UnloadDocument {
    schema: &'static str,
    name: ControlName,
    flows: usize,
}

pub(super) fn unloaded(name: ControlName, flows: usize, output: &Output) -> Result<(), Error> {
    let text = match flows {
        0 => format!("{name}: unloaded"),
        1 => format!("{name}: unloaded; one flow here still uses it and keeps it to its end"),
        n => format!("{name}: unloaded; {n} flows here still use it and keep it to their end"),
    };
    output.result(&UnloadDocument { schema: "farline/cc-unload/1", name, flows }, text)
}

#[derive(Serialize)]
struct SampleDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    sample: &'a FlowSample,
}

pub(super) fn sample(sample: &FlowSample, output: &Output) -> Result<(), Error> {
    let ssthresh = sample.ssthresh.map_or_else(|| "-".to_owned(), |packets| packets.to_string());
    let text = format!(
        "{:>14.6} s  :{} to {}  cwnd {:>6}  ssthresh {ssthresh:>6}  srtt {:>9.3} ms  lost {:>5}  \
         {}",
        sample.time_us as f64 / 1e6,
        sample.local_port,
        sample.remote,
        sample.cwnd,
        f64::from(sample.srtt_us) / 1e3,
        sample.lost,
        sample.state,
    );
    output.result(&SampleDocument { schema: "farline/cc-sample/1", sample }, text)
}
