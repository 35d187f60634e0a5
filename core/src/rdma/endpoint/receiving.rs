//! What an end receives: blocks announced, written or read into its advertised slots, up to the
//! peer's mark.

use super::{Advertised, Endpoint};
use crate::rdma::record::{Announcement, Credit, Record};
use crate::rdma::{Output, QueuePair, Violation};
use crate::transfer::SlotId;

impl Endpoint {
    /// The peer announced a block.
    pub(super) fn announced(
        &mut self,
        on: QueuePair,
        announcement: Announcement,
    ) -> Result<(), Violation> {
        if self.mark.is_some_and(|mark| mark.credit == announcement.credit) {
            // That slot goes back when the mark's blocks are there, and a device must not be at
            // work in it then.
            return Err(Violation::UnknownCredit);
        }
        let advertised =
            self.advertised.get_mut(&announcement.credit).ok_or(Violation::UnknownCredit)?;
        if advertised.announced.is_some() {
            return Err(Violation::UnknownCredit);
        }
        if announcement.len > advertised.len {
            return Err(Violation::WrongLength);
        }
        advertised.announced = Some((on, announcement));
        Ok(())
    }

    pub(super) fn written(
        &mut self,
        on: QueuePair,
        credit: u32,
        len: u32,
    ) -> Result<(), Violation> {
        let advertised = self.advertised.get(&credit).ok_or(Violation::UnknownCredit)?;
        let Some((_, announcement)) =
            advertised.announced.filter(|(announced, _)| *announced == on)
        else {
            return Err(Violation::NotAnnounced);
        };
        if announcement.len != len {
            return Err(Violation::WrongLength);
        }
        self.landed(credit, advertised.slot, announcement)
    }

    /// A block of the peer's was read.
    pub(super) fn fetched(&mut self, slot: SlotId) -> Result<(), Violation> {
        let mut read = self.advertised.iter().filter(|(_, advertised)| advertised.slot == slot);
        let Some((&credit, &Advertised { announced: Some((_, announcement)), .. })) = read.next()
        else {
            return Ok(());
        };
        self.read.push(credit);
        self.landed(credit, slot, announcement)
    }

    fn landed(
        &mut self,
        credit: u32,
        slot: SlotId,
        announcement: Announcement,
    ) -> Result<(), Violation> {
        self.advertised.remove(&credit);
        self.arrived += 1;
        self.outputs.push_back(Output::Arrived {
            slot,
            len: announcement.len,
            header: announcement.header,
        });
        self.end_if_whole()
    }

    pub(super) fn end_if_whole(&mut self) -> Result<(), Violation> {
        let Some(mark) = self.mark else { return Ok(()) };
        if self.arrived > mark.blocks {
            return Err(Violation::WrongMark);
        }
        if self.arrived < mark.blocks {
            return Ok(());
        }
        // Every slot goes back now, the mark's among them: none may have a block on its way into
        // it.
        if self.advertised.values().any(|advertised| advertised.announced.is_some()) {
            return Err(Violation::WrongMark);
        }
        let Some(ended) = self.advertised.remove(&mark.credit) else {
            return Err(Violation::WrongMark);
        };
        self.outputs.push_back(Output::Ended { slot: ended.slot, header: mark.header });
        let unused =
            std::mem::take(&mut self.advertised).into_values().map(|advertised| advertised.slot);
        let unused = unused.chain(self.offered.drain(..).map(|(slot, _)| slot));
        self.outputs.extend(unused.map(Output::Returned));
        (self.mark, self.arrived) = (None, 0);
        self.peers_transfer = self.peers_transfer.wrapping_add(1);
        Ok(())
    }

    /// Tells the peer of offered slots, many at once where there are many.
    pub(super) fn advertise(&mut self) {
        let room = usize::from(self.settings.credits).saturating_sub(self.advertised.len());
        let count = self.offered.len().min(room).min(Record::CREDITS_MOST);
        if count == 0 || !self.has_room(0, 1) {
            return;
        }
        let mut credits = Vec::with_capacity(count);
        for (slot, credit) in self.offered.drain(..count) {
            let number = self.next_number;
            self.next_number = number.wrapping_add(1);
            self.advertised.insert(number, Advertised { slot, len: credit.len, announced: None });
            credits.push(Credit { number, ..credit });
        }
        self.post(QueuePair(0), Record::Credits { transfer: self.peers_transfer, credits });
    }

    /// Tells the peer of blocks that were read, many at once where there are many.
    pub(super) fn acknowledge(&mut self) {
        let count = self.read.len().min(Record::DONE_MOST);
        if count > 0 && self.has_room(0, 1) {
            let done = self.read.drain(..count).collect();
            self.post(QueuePair(0), Record::Done(done));
        }
    }

    /// Reads what the peer announced.
    pub(super) fn fetch(&mut self) {
        let Some(&(credit, from)) = self.to_read.front() else { return };
        let Some(&Advertised { slot, announced: Some((_, announcement)), .. }) =
            self.advertised.get(&credit)
        else {
            return;
        };
        let Some(number) = self.idlest(1) else { return };
        self.to_read.pop_front();
        self.pairs[number].under_way += 1;
        self.outputs.push_back(Output::Read {
            on: QueuePair(number as u8),
            slot,
            len: announcement.len,
            from,
        });
    }
}
