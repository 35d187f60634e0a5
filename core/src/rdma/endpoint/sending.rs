//! What an end sends: blocks and marks, each on a credit of the peer's.

use super::{Endpoint, ExposedBuffer, Job};
use crate::rdma::record::{Announcement, Credit, Record};
use crate::rdma::{Output, Placement, QueuePair, Violation};
use crate::transfer::SlotId;

impl Endpoint {
    /// The peer has read a block of this end's.
    pub(super) fn taken(&mut self, credit: u32) -> Result<(), Violation> {
        let exposed = self.exposed.remove(&credit).ok_or(Violation::NotExposed)?;
        self.outputs.push_back(Output::Sent(exposed.slot));
        if exposed.transfer != self.transfer
            && self.exposed.values().all(|other| other.transfer == self.transfer)
        {
            self.outputs.push_back(Output::Taken);
        }
        Ok(())
    }

    /// Sends what waits, while there are credits.
    pub(super) fn carry(&mut self) {
        let Some(&job) = self.jobs.front() else { return };
        let Some(&to) = self.credits.front() else { return };
        match job {
            Job::Block { len, .. } if len > to.len => {
                self.broken = true;
                self.outputs.push_back(Output::Broken(Violation::ShortSlot));
            }
            // Of an earlier transfer there may be some still that the peer has read and not said
            // so.
            Job::Block { .. } if self.exposed.len() >= usize::from(self.settings.credits) => {}
            Job::Block { slot, source, len, header } => {
                let Some(number) = self.idlest(2) else { return };
                let on = QueuePair(number as u8);
                let announcement = Announcement { credit: to.number, len, header };
                match self.settings.placement {
                    Placement::Immediate => {
                        self.post(on, Record::Block(announcement));
                        self.write(on, slot, len, to, true);
                    }
                    Placement::Behind => {
                        self.write(on, slot, len, to, false);
                        self.post(on, Record::Block(announcement));
                    }
                    Placement::Read => {
                        self.exposed
                            .insert(to.number, ExposedBuffer { slot, transfer: self.transfer });
                        self.post(on, Record::Filled(announcement, source));
                    }
                }
                self.blocks += 1;
                self.jobs.pop_front();
                self.credits.pop_front();
            }
            Job::Mark(header) => {
                if !self.has_room(0, 1) {
                    return;
                }
                self.post(
                    QueuePair(0),
                    Record::Mark { credit: to.number, blocks: self.blocks, header },
                );
                self.jobs.pop_front();
                self.credits.clear();
                self.blocks = 0;
                self.transfer = self.transfer.wrapping_add(1);
                if self.reads() && self.exposed.is_empty() {
                    self.outputs.push_back(Output::Taken);
                }
            }
        }
    }

    fn write(&mut self, on: QueuePair, slot: SlotId, len: u32, to: Credit, immediate: bool) {
        self.pairs[usize::from(on.0)].under_way += 1;
        self.writing.insert(slot);
        self.outputs.push_back(Output::Write { on, slot, len, to, immediate });
    }
}
