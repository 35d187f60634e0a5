//! What held a transfer back, from where its threads waited and what the kernel says of its
//! sockets.

use crate::units::Span;
use serde::{Deserialize, Serialize};

/// What limited a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// A processor of this host: its threads hardly waited.
    Cpu,
    /// Reading the source.
    DiskRead,
    /// Writing the destination, at this end or, when sending, as far as the receiver's closed
    /// window tells.
    DiskWrite,
    /// The network: congestion window, rate or loss.
    Network,
    /// The receiver's window: its buffer limits or its reading.
    ReceiverWindow,
    /// This host's socket send buffers.
    SendBuffer,
    /// Set-up: connections and round trips, not moving bytes.
    SetUp,
    /// A processor of the other end's host.
    Peer,
}

impl Limit {
    /// The name that documents and the wire have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Cpu => "cpu",
            Limit::DiskRead => "disk_read",
            Limit::DiskWrite => "disk_write",
            Limit::Network => "network",
            Limit::ReceiverWindow => "receiver_window",
            Limit::SendBuffer => "send_buffer",
            Limit::SetUp => "set_up",
            Limit::Peer => "peer",
        }
    }

    /// What held a transfer back by both ends' word: this end's, unless it waited for the network
    /// and the other end, which called it `there`, knows why.
    #[must_use]
    pub fn joined(self, there: &str) -> Limit {
        if !matches!(self, Limit::Network | Limit::ReceiverWindow) {
            return self;
        }
        match there {
            "cpu" => Limit::Peer,
            "disk_read" => Limit::DiskRead,
            "disk_write" => Limit::DiskWrite,
            "send_buffer" => Limit::SendBuffer,
            "receiver_window" => Limit::ReceiverWindow,
            _ => self,
        }
    }
}

/// Where a transfer's time went, summed over its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Time in which bytes moved, by the wall clock.
    pub moving: Span,
    /// Time before the first byte and after the last, by the wall clock.
    pub setting_up: Span,
    /// Channels that were open.
    pub channels: u32,
    /// Time channels waited for a slot with data (sending) or for a free slot (receiving).
    pub channels_waited_for_store: Span,
    /// Time channels spent inside the kernel sending or waiting for bytes.
    pub channels_in_network: Span,
    /// Processor time of this process.
    pub cpu: Span,
    /// From `TCP_INFO`: time with data in flight, limited by the receiver's window, limited by the
    /// send buffer.
    pub tcp_busy: Span,
    /// See [`Self::tcp_busy`].
    pub tcp_rwnd_limited: Span,
    /// See [`Self::tcp_busy`].
    pub tcp_sndbuf_limited: Span,
}

impl Waits {
    /// What limited the sending end.
    pub fn sender_limit(&self) -> Limit {
        let channel_time = self.channel_time();
        if self.setting_up > self.moving {
            return Limit::SetUp;
        }
        if self.channels_waited_for_store.as_secs_f64() > 0.5 * channel_time {
            return if self.cpu_bound() { Limit::Cpu } else { Limit::DiskRead };
        }
        let busy = self.tcp_busy.as_secs_f64();
        if busy > 0.0 && self.tcp_rwnd_limited.as_secs_f64() > 0.5 * busy {
            return Limit::ReceiverWindow;
        }
        if busy > 0.0 && self.tcp_sndbuf_limited.as_secs_f64() > 0.5 * busy {
            return Limit::SendBuffer;
        }
        if self.cpu_bound() { Limit::Cpu } else { Limit::Network }
    }

    /// What limited the receiving end.
    pub fn receiver_limit(&self) -> Limit {
        if self.setting_up > self.moving {
            return Limit::SetUp;
        }
        if self.channels_waited_for_store.as_secs_f64() > 0.5 * self.channel_time() {
            return if self.cpu_bound() { Limit::Cpu } else { Limit::DiskWrite };
        }
        if self.cpu_bound() { Limit::Cpu } else { Limit::Network }
    }

    fn channel_time(&self) -> f64 {
        self.moving.as_secs_f64() * f64::from(self.channels.max(1))
    }

    /// Nine tenths of one processor: a single busy thread of the pipeline holds the others up.
    fn cpu_bound(&self) -> bool {
        self.cpu.as_secs_f64() > 0.9 * (self.moving + self.setting_up).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits() -> Waits {
        Waits {
            moving: Span::from_secs(10),
            channels: 4,
            tcp_busy: Span::from_secs(40),
            ..Waits::default()
        }
    }

    #[test]
    fn names_the_stage_that_others_waited_for() {
        assert_eq!(waits().sender_limit(), Limit::Network);
        let slow_disk = Waits { channels_waited_for_store: Span::from_secs(30), ..waits() };
        assert_eq!(slow_disk.sender_limit(), Limit::DiskRead);
        assert_eq!(slow_disk.receiver_limit(), Limit::DiskWrite);
        let small_window = Waits { tcp_rwnd_limited: Span::from_secs(30), ..waits() };
        assert_eq!(small_window.sender_limit(), Limit::ReceiverWindow);
        let hot = Waits { cpu: Span::from_secs(11), ..waits() };
        assert_eq!(hot.sender_limit(), Limit::Cpu);
        let short =
            Waits { moving: Span::from_millis(10), setting_up: Span::from_millis(600), ..waits() };
        assert_eq!(short.sender_limit(), Limit::SetUp);
    }

    #[test]
    fn only_who_waits_for_the_network_takes_the_peers_word() {
        assert_eq!(Limit::ReceiverWindow.joined(Limit::DiskWrite.name()), Limit::DiskWrite);
        assert_eq!(Limit::Network.joined(Limit::Cpu.name()), Limit::Peer);
        assert_eq!(Limit::Network.joined("something new"), Limit::Network);
        assert_eq!(Limit::DiskRead.joined("cpu"), Limit::DiskRead);
    }

    #[test]
    fn the_name_is_what_documents_say() {
        use Limit::{Cpu, DiskRead, DiskWrite, Network, Peer, ReceiverWindow, SendBuffer, SetUp};
        for limit in [Cpu, DiskRead, DiskWrite, Network, ReceiverWindow, SendBuffer, SetUp, Peer] {
            assert_eq!(serde_json::to_value(limit).expect("JSON"), limit.name());
        }
    }
}
