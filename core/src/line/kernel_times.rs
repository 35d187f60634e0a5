//! Of how many packets the kernels said when they left: what a program reads before it sends is off
//! by whatever its host does in between.

use serde::{Deserialize, Serialize};

/// Packets that came back, and of which of them which kernel told a time (software timestamps; a
/// device's own clock is not asked).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTimes {
    /// Packets.
    pub packets: u64,
    /// This host's, of when it left.
    pub left_here: u64,
    /// This host's, of when its answer came.
    pub came_here: u64,
    /// The other end's, of when that left there, said with a later answer (RFC 8972).
    pub left_there: u64,
}

impl KernelTimes {
    /// Both together.
    pub fn and(&self, more: &KernelTimes) -> KernelTimes {
        KernelTimes {
            packets: self.packets + more.packets,
            left_here: self.left_here + more.left_here,
            came_here: self.came_here + more.came_here,
            left_there: self.left_there + more.left_there,
        }
    }

    /// In words; `None` of no packet.
    pub(super) fn words(&self) -> Option<String> {
        let KernelTimes { packets, left_here, came_here, left_there } = self;
        (*packets > 0).then(|| {
            format!(
                "Kernel timestamps (software's; no device's own clock is asked): of {packets} packets \
                 this host's kernel said of {left_here} when they left and of {came_here} when \
                 their answers came, and the other's of {left_there} when these left. The rest, and \
                 when they came there, is as the packets say"
            )
        })
    }
}
