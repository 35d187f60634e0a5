//! How a client asks a node to be the receiving end: `ERET FARLINE.PROFILE` (docs/protocol.md, M-1
//! to M-5).

use super::{ProbeReceived, ProbeRequest, ProbeSent};
use farline_core::profile::TrafficDirection;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The module of ERET.
pub(crate) const MODULE: &str = "FARLINE.PROFILE";
/// The longest that one request may measure, in seconds.
const LONGEST: f64 = 24.0 * 3_600.0;
/// More samples than that are no time series that anyone looks at, and would not fit into a reply.
const MOST_SAMPLES: f64 = 100_000.0;

/// Larger messages are refused: a sending node keeps one.
const MOST_MESSAGE: Bytes = Bytes::mib(64);

/// The FEAT line of a node that may be measured at `ceiling` at most, and sends too (M-1).
pub(crate) fn feature(ceiling: Rate) -> String {
    format!("FARLINE PROFILE {} DUPLEX", ceiling.as_bps())
}

/// What a node tells at the end (M-5): what it got, in the object itself, and what it knows of what
/// it sent.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) received: Option<ProbeReceived>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<ProbeSent>,
}

impl ProbeRequest {
    /// The module's parameters (M-2).
    pub(crate) fn parms(&self) -> String {
        let window = self.window.map(|window| format!("window={};", window.0)).unwrap_or_default();
        // The node that sends has to be told what else only a sender needs.
        let sizes = [("buffer", self.buffer), ("message", self.message)];
        let sizes = sizes.into_iter().filter(|_| self.direction != TrafficDirection::Out);
        let sizes: String = sizes
            .filter_map(|(name, size)| size.map(|size| format!("{name}={};", size.0)))
            .collect();
        let limit = self.limit.filter(|_| self.direction != TrafficDirection::Out);
        let limit = limit.map(|limit| format!("limit={};", limit.as_bps())).unwrap_or_default();
        let direction = match self.direction {
            TrafficDirection::Out => String::new(),
            other => format!("direction={};", other.name()),
        };
        format!(
            "streams={};seconds={};sample={};{window}{sizes}{direction}{limit}",
            self.streams, self.seconds, self.sample_s
        )
    }

    /// Reads them; what only the sender needs is left as it is by default.
    pub(crate) fn parse(parms: &str) -> Result<ProbeRequest, Error> {
        let wrong =
            |what: String| Error::new(Fault::You, ErrorCode::Rejected, format!("{MODULE}: {what}"));
        let mut request = ProbeRequest::default();
        for parm in parms.split(';').filter(|parm| !parm.is_empty()) {
            let (name, value) =
                parm.split_once('=').ok_or_else(|| wrong(format!("`{parm}` has no value")))?;
            fn number<T: FromStr>(value: &str) -> Option<T> {
                value.parse().ok()
            }
            let read = match name {
                "streams" => number(value).map(|streams| request.streams = streams),
                "seconds" => number(value).map(|seconds| request.seconds = seconds),
                "sample" => number(value).map(|sample| request.sample_s = sample),
                "window" => number(value).map(|window| request.window = Some(Bytes(window))),
                "buffer" => number(value).map(|buffer| request.buffer = Some(Bytes(buffer))),
                "message" => number(value).map(|message| request.message = Some(Bytes(message))),
                "limit" => number(value).map(|limit| request.limit = Some(Rate::from_bps(limit))),
                "direction" => number(value).map(|direction| request.direction = direction),
                // Later versions may say more.
                _ => Some(()),
            };
            read.ok_or_else(|| wrong(format!("`{parm}` is not to be understood")))?;
        }
        let ProbeRequest { streams, seconds, sample_s, message, .. } = request;
        if let Some(message) = message.filter(|message| !(1..=MOST_MESSAGE.0).contains(&message.0))
        {
            return Err(wrong(format!(
                "messages of {message}: 1 B to {MOST_MESSAGE} are possible"
            )));
        }
        if !(1..=64).contains(&streams) {
            return Err(wrong(format!("{streams} streams: 1 to 64 are possible")));
        }
        if !(seconds > 0.0
            && seconds <= LONGEST
            && sample_s > 0.0
            && sample_s <= seconds
            && seconds / sample_s <= MOST_SAMPLES)
        {
            return Err(wrong(format!(
                "{seconds} s in samples of {sample_s} s cannot be measured"
            )));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::gridftp::Reply;
    use farline_core::gridftp::client::PeerFeatures;

    #[test]
    fn what_is_asked_is_what_is_understood_and_nonsense_is_refused() {
        let asked = ProbeRequest {
            streams: 4,
            seconds: 12.5,
            sample_s: 0.5,
            window: Some(Bytes::mib(4)),
            ..ProbeRequest::default()
        };
        assert_eq!(ProbeRequest::parse(&asked.parms()).expect("its own words"), asked);
        let sizes =
            ProbeRequest { buffer: Some(Bytes::mib(2)), message: Some(Bytes(512)), ..asked };
        assert!(
            !sizes.parms().contains("message"),
            "what only the sender needs stays with it: {}",
            sizes.parms()
        );
        let back = ProbeRequest {
            direction: TrafficDirection::Back,
            limit: Some(Rate::from_bps(1_000_000_000)),
            ..sizes
        };
        assert_eq!(ProbeRequest::parse(&back.parms()).expect("its own words"), back);
        let line = format!(" {}", feature(Rate::from_bps(2_000_000_000)));
        let features = PeerFeatures::of(&Reply::new(211, ["", &line, ""]));
        assert_eq!(features.profile_ceiling, Some(Rate::from_bps(2_000_000_000)));
        assert!(features.profile_duplex);
        for nonsense in [
            "",
            "streams=0;seconds=1;sample=1",
            "streams=1;seconds=nan;sample=1",
            "streams=1;seconds=9;sample=0",
        ] {
            assert_eq!(
                ProbeRequest::parse(nonsense).expect_err(nonsense).fault,
                Fault::You,
                "{nonsense}"
            );
        }
        for nonsense in [
            "streams=65;seconds=1;sample=1",
            "streams=1;seconds=1e9;sample=1",
            "streams=1;seconds=1;sample=1;message=0",
            "streams=1;seconds=1;sample=1;message=99999999999",
            "streams",
            "streams=x",
            "direction=up;streams=1;seconds=1;sample=1",
        ] {
            assert!(ProbeRequest::parse(nonsense).is_err(), "{nonsense}");
        }
    }
}
