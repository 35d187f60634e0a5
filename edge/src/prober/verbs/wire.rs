//! What lies between two devices in software: a delay, and the rate and queue of a long haul, by
//! the kernel's traffic control.
//!
//! Soft-RoCE cannot run over Farline's own link: it wants an Ethernet device, and Linux looks up
//! its routes in the first network namespace alone. So the delay is netem's, on the virtual
//! interfaces beneath the devices, and goes when the measurement ends.

use super::device::Device;
use farline_core::profile::verbs::{Bottleneck, VerbsJob};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Setting, Span};
use std::path::Path;
use std::process::Command;

/// Packets that may be on their way: the default of 1000 would be the limit of most paths.
const LIMIT: u64 = 100_000;
/// Payload of soft-RoCE's largest packet, and what lies around it on the interface: Ethernet, IPv4,
/// UDP, base transport, address, check.
const PACKET: (u64, u64) = (4_096, 14 + 20 + 8 + 12 + 16 + 4);

/// The wire between two devices.
pub(super) struct Wire {
    ends: [Device; 2],
    now: Shape,
}

/// What a wire is made to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shape {
    rtt: Span,
    /// What bounds the way from the near end, and the bytes of one packet there.
    bottleneck: Option<(Bottleneck, u64)>,
}

/// The bytes of a packet of this run on the interface.
pub(super) fn packet_of(size: Bytes) -> u64 {
    size.0.min(PACKET.0) + PACKET.1
}

impl Wire {
    pub(super) fn between(near: &Device, far: &Device) -> Wire {
        Wire { ends: [near.clone(), far.clone()], now: Shape::default() }
    }

    /// Has a round trip take as much longer than it does by itself as `job` says, half of it each
    /// way; and what leaves the near end pass its bottleneck.
    ///
    /// # Errors
    /// When the devices are no software over virtual interfaces, whose packets the kernel could
    /// hold back, or `tc` is missing.
    pub(super) fn set(&mut self, job: &VerbsJob) -> Result<(), Error> {
        let bottleneck = job.bottleneck.map(|bottleneck| (bottleneck, packet_of(job.size_bytes)));
        let shape = Shape { rtt: job.rtt_ns, bottleneck };
        if shape == self.now {
            return Ok(());
        }
        for (end, bottleneck) in self.ends.iter().zip([shape.bottleneck, None]) {
            let interface = interface(end)?;
            // What was there before might have other limits.
            clear(interface);
            if shape.rtt == Span::ZERO && bottleneck.is_none() {
                continue;
            }
            let one_way = Span::from_nanos(shape.rtt.as_nanos() / 2);
            let delay = format!("{}us", one_way.as_nanos().div_ceil(1_000));
            let mut words =
                ["qdisc", "replace", "dev", interface, "root", "netem", "delay", &delay]
                    .map(str::to_owned)
                    .to_vec();
            let mut limit = LIMIT;
            if let Some((bottleneck, packet)) = bottleneck {
                words.extend(["rate".to_owned(), format!("{}bit", bottleneck.rate_bps.as_bps())]);
                // netem counts what is on its way with what waits; all packets are of one size
                // here.
                let under_way = bottleneck.rate_bps.as_bps() as f64 * one_way.as_secs_f64() / 8.0;
                limit =
                    ((under_way + bottleneck.queue_bytes.0 as f64) / packet as f64).ceil() as u64;
            }
            words.extend(["limit".to_owned(), limit.max(1).to_string()]);
            run(&words)?;
        }
        self.now = shape;
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.now != Shape::default() {
            self.ends.iter().filter_map(|end| end.interface.as_deref()).for_each(clear);
        }
    }
}

/// The virtual interface beneath `device`.
fn interface(device: &Device) -> Result<&str, Error> {
    let place = |name: &str| Path::new("/sys/class/net").join(name).join("device").exists();
    match &device.interface {
        Some(name) if device.software && !place(name) => Ok(name),
        _ => Err(Error::new(
            Fault::You,
            ErrorCode::ProfilePath,
            format!(
                "nothing here holds back the packets of the device at {}: only those of a device \
                 in software over a virtual interface",
                device.address
            ),
        )
        .hint(format!("measure the path as it is: {} 0ms", Setting::Rtt))),
    }
}

fn clear(interface: &str) {
    // What is not there need not be removed.
    let _ = run(&["qdisc", "del", "dev", interface, "root"].map(str::to_owned));
}

fn run(words: &[String]) -> Result<(), Error> {
    let failed = |why: String| {
        Error::new(Fault::Here, ErrorCode::ProfileWire, format!("tc {}: {why}", words.join(" ")))
            .hint(
                "the delay between devices in software needs tc (iproute2), the kernel's \
                sch_netem and root",
            )
    };
    let done =
        Command::new("tc").args(words).output().map_err(|error| failed(error.to_string()))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
    }
}
