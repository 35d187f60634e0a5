//! The wide-area link: delay, rate, queue, loss, bit errors, jitter and cross-traffic, in virtual
//! time.
//!
//! A [`OneWayLink`] is one direction of a wide-area path as a machine with two verbs. It is told of
//! packets as descriptors ([`Packet`]: a token and how many [`Frames`] it would be on the wire) and
//! answers which frames of which packet arrive, when, and what became of the others. It never sees
//! a byte. `farline link` runs two of them between TUN devices; a simulation runs the same code in
//! virtual time.
//!
//! A frame's way through the link, in this order:
//!
//! 1. *Outage*: a frame offered during a scripted outage, or among the next frames scripted to be
//!    lost, is gone.
//! 2. *Queue*: a frame that finds the queue full is dropped from its tail. Cross-traffic fills the
//!    same queue.
//! 3. *Wire*: the frame is serialised at the link's rate, counted with preamble, header, FCS and
//!    gap ([`frames`]).
//! 4. *Line*: loss and bit errors take frames that have used their share of the wire; a bit error
//!    means a wrong FCS.
//! 5. *Distance*: the frame arrives one one-way delay, plus jitter, after its last bit has left.
//!
//! A train of frames that the sender handed over whole (a TSO super-packet) is delivered whole,
//! when its last frame arrives, unless an impairment cuts it; then each run of surviving neighbours
//! is delivered by itself.
//!
//! An [`Extender`] is InfiniBand over such a link: range extenders at its ends, whose deep buffers
//! stand for the short credits of its cables.
//!
//! Invariants: every frame offered is delivered, dropped with a cause, or in flight; order is kept
//! unless `reorder` is set; the same settings, seed, packets and times give the same outputs,
//! however often the machine is polled.

mod counters;
mod extender;
pub mod frames;
mod impairments;
mod jitter;
mod link;
mod path;
mod queue;
mod script;
mod settings;

pub use counters::{Cause, Counters};
pub use extender::{Extender, Extension, NATIVE_CREDITS};
pub use frames::Frames;
pub use link::{OneWayLink, Output, Packet};
pub use path::Path;
pub use script::{Change, Event, EventSide};
pub use settings::{Direction, LinkSettings};

#[cfg(test)]
mod tests;
