//! How messages travel, which way, and how their connection is made: the axes of a profile of RDMA
//! that are words.

use crate::experiment::from_word;
use crate::units::{ErrorCode, Fault, Span};
use serde::{Deserialize, Serialize};

/// How messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QpService {
    /// A reliable connection (RC), by RDMA WRITE.
    #[default]
    Rc,
    /// Unreliable datagrams (UD), by SEND.
    Ud,
    /// A reliable connection (RC), by RDMA READ.
    Read,
}

/// Which way, and what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerbsMetric {
    /// Throughput of one end that sends.
    #[default]
    OneWay,
    /// The sum of both ends, which send at once.
    BothWays,
    /// The time from sending a message to having one of its size back.
    RoundTrip,
}

/// How a connection is made (SC08, section IV.B), which decides how long it waits for an
/// acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setup {
    /// By the communication manager, from what the subnet says of the path.
    #[default]
    Cm,
    /// By parameters exchanged over a socket: those that are compiled in.
    Exchange,
}

from_word!(
    QpService,
    Fault::You,
    ErrorCode::ProfileTransport,
    "transport of verbs",
    "rc, ud and read"
);
from_word!(
    Setup,
    Fault::You,
    ErrorCode::ProfileSetup,
    "way of connecting queue pairs",
    "cm (rdma_cm) and exchange (parameters over a socket)"
);
from_word!(
    VerbsMetric,
    Fault::You,
    ErrorCode::ProfileDirection,
    "way of measuring messages",
    "one-way, both-ways and round-trip"
);

impl QpService {
    /// `RC`, `UD` or `READ`.
    pub fn name(self) -> &'static str {
        match self {
            QpService::Rc => "RC",
            QpService::Ud => "UD",
            QpService::Read => "READ",
        }
    }
}

impl VerbsMetric {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            VerbsMetric::OneWay => "one way",
            VerbsMetric::BothWays => "both ways",
            VerbsMetric::RoundTrip => "round trip",
        }
    }
}

impl Setup {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Setup::Cm => "rdma_cm",
            Setup::Exchange => "exchanged",
        }
    }

    /// The least time that the connection waits for an acknowledgement, 4.096 us * 2^n; a device
    /// takes between one and four of it (InfiniBand Architecture Specification 1.2.1, section
    /// 9.7.6.1.3).
    ///
    /// The communication manager takes the subnet's packet life time, of which OpenSM's default is
    /// 2^18, and doubles it (Linux, cm.c); `ib_rdma_bw` has 2^14 compiled in (perftest, rdma_bw.c:
    /// `timeout = 14`).
    pub fn timeout(self) -> Span {
        Span::from_nanos(4_096 << self.timeout_exponent())
    }

    /// The exponent of [`Self::timeout`], as a queue pair takes it.
    pub fn timeout_exponent(self) -> u8 {
        match self {
            Setup::Cm => 19,
            Setup::Exchange => 14,
        }
    }
}
