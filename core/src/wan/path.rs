//! Named paths: the distances and rates that Farline's five papers measured.

use super::settings::LinkSettings;
use crate::units::{Error, ErrorCode, Fault, Rate, Setting, Span};
use serde::Serialize;

/// What 10GBASE-W leaves for Ethernet in an OC-192c/STM-64: 9.58464 Gbit/s of SONET payload times
/// 64/66 (IEEE 802.3, clause 50). The papers round it to this.
const WAN_PHY: Rate = Rate::from_bps(9_290_000_000);
/// InfiniBand SDR 4x after 8b/10b coding: what an Obsidian Longbow XR carries.
const INFINIBAND_SDR: Rate = Rate::from_bps(8_000_000_000);

/// A named path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// The name as given: `usn-8600`, `longbow:5ms`.
    pub name: String,
    /// Bits per second on the wire.
    pub rate: Rate,
    /// Round-trip time; `None` for `custom`, which has none of its own.
    pub rtt: Option<Span>,
    /// Length of fibre, where the paper gives it.
    pub miles: Option<f64>,
    /// What it is and where its figures come from.
    pub about: &'static str,
}

/// Name, rtt in microseconds, rate, miles, source.
const NAMED: [(&str, u64, Rate, Option<f64>, &str); 7] = [
    ("usn-0.2", 280, WAN_PHY, Some(0.2), "UltraScience Net, ORNL local loop (SC08, Table II)"),
    (
        "usn-1400",
        26_800,
        WAN_PHY,
        Some(1_400.0),
        "UltraScience Net, ORNL-Chicago loop (SC08, Table II)",
    ),
    (
        "usn-6600",
        128_000,
        WAN_PHY,
        Some(6_600.0),
        "UltraScience Net, ORNL-Chicago-Seattle loop (SC08, Table II)",
    ),
    (
        "usn-8600",
        163_000,
        WAN_PHY,
        Some(8_600.0),
        "UltraScience Net, ORNL-Chicago-Seattle-Sunnyvale loop (SC08, Table II)",
    ),
    (
        "geneva-amsterdam",
        17_000,
        WAN_PHY,
        None,
        "CERN to Amsterdam over 10GbE WAN PHY (Trans-European, section 5)",
    ),
    (
        "ncar-llnl",
        30_000,
        INFINIBAND_SDR,
        None,
        "the CCSM replication, emulated by Longbows (ADTS, section 5)",
    ),
    (
        "ornl-ucdavis",
        80_000,
        INFINIBAND_SDR,
        None,
        "the Ultravis files, emulated by Longbows (ADTS, section 5)",
    ),
];

/// The most that a pair of Longbow XRs adds one way (ICPP08, section 3).
const LONGBOW_MOST: Span = Span::from_millis(10);

impl Path {
    /// Every path that has a name of its own, `longbow:DELAY` and `custom` not among them.
    pub fn all() -> Vec<Path> {
        NAMED
            .iter()
            .map(|&(name, rtt, rate, miles, about)| Path {
                name: name.to_owned(),
                rate,
                rtt: Some(Span::from_micros(rtt)),
                miles,
                about,
            })
            .collect()
    }

    /// The path called `name`: one of [`all`](Path::all), `longbow:DELAY` with 0 to 10 ms one way,
    /// or `custom`.
    ///
    /// # Errors
    /// [`Fault::You`] with the known names when there is none, or when a Longbow's delay is out of
    /// its range.
    pub fn named(name: &str) -> Result<Path, Error> {
        if let Some(path) = Path::all().into_iter().find(|path| path.name == name) {
            return Ok(path);
        }
        if name == "custom" {
            let about = "your own rtt, or one-way delay, and rate";
            return Ok(Path {
                name: name.to_owned(),
                rate: Rate::from_bps(10_000_000_000),
                rtt: None,
                miles: None,
                about,
            });
        }
        if let Some(delay) = name.strip_prefix("longbow:") {
            let one_way: Span = delay.parse().map_err(|error| {
                Error::new(Fault::You, ErrorCode::LinkPath, format!("{name}: {error}"))
                    .hint("for example longbow:5ms")
            })?;
            if one_way > LONGBOW_MOST {
                return Err(Error::new(
                    Fault::You,
                    ErrorCode::LinkPath,
                    format!("{name}: a pair of Longbows adds at most {LONGBOW_MOST} one way"),
                )
                .hint(format!("for a longer path use custom {}, or usn-8600", Setting::Rtt)));
            }
            let about = "a pair of Obsidian Longbow XRs (ICPP08): the delay is added one way";
            return Ok(Path {
                name: name.to_owned(),
                rate: INFINIBAND_SDR,
                rtt: Some(one_way + one_way),
                miles: None,
                about,
            });
        }
        let known: Vec<&str> = NAMED.iter().map(|path| path.0).collect();
        Err(Error::new(
            Fault::You,
            ErrorCode::LinkPath,
            format!("there is no path called `{name}`"),
        )
        .hint(format!("known paths: {}, longbow:DELAY, custom", known.join(", "))))
    }

    /// The clean link of this path at its own rate, or at `rate`.
    ///
    /// # Errors
    /// [`Fault::You`] when the path has no rtt of its own and `rtt` is `None`.
    pub fn settings(&self, rate: Option<Rate>, rtt: Option<Span>) -> Result<LinkSettings, Error> {
        let rtt = rtt.or(self.rtt).ok_or_else(|| {
            Error::new(
                Fault::You,
                ErrorCode::LinkSetting,
                format!("the path `{}` has no rtt of its own", self.name),
            )
            .hint(format!(
                "give {}, for example {} 50ms, or {}",
                Setting::Rtt,
                Setting::Rtt,
                Setting::OneWayDelay
            ))
        })?;
        Ok(LinkSettings::new(rate.unwrap_or(self.rate), rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn the_longest_path_holds_189_megabytes() {
        let settings = Path::named("usn-8600")
            .expect("it is allowed")
            .settings(None, None)
            .expect("it is allowed");
        assert_eq!(settings.rtt(), Span::from_millis(163));
        assert_eq!(settings.bandwidth_delay_product(), Bytes(189_283_750));
        assert_eq!(settings.a_to_b.queue, Bytes(189_283_750));
        assert_eq!(
            Path::named("usn-0.2")
                .expect("it is allowed")
                .settings(None, None)
                .expect("it is allowed")
                .a_to_b
                .queue,
            Bytes::mib(4)
        );
    }

    #[test]
    fn longbows_add_their_delay_each_way() {
        let path = Path::named("longbow:5ms").expect("it is allowed");
        assert_eq!(path.rtt, Some(Span::from_millis(10)));
        assert_eq!(path.rate, INFINIBAND_SDR);
        assert!(Path::named("longbow:11ms").is_err());
        assert!(Path::named("longbow:5").is_err());
    }

    #[test]
    fn an_unknown_path_lists_the_known_ones() {
        let error = Path::named("mars").expect_err("it is refused");
        assert_eq!(error.fault, Fault::You);
        assert!(error.hint.expect("a hint").contains("usn-8600"));
        assert!(Path::named("custom").expect("it is allowed").settings(None, None).is_err());
    }
}
