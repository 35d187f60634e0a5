//! What is agreed with a peer: how blocks are guarded, what it may change by itself, what it is to
//! hold to.

use super::requests::farline_option;
use crate::congestion::ControlName;
use crate::gridftp::checked::CHECKED_LEN;
use crate::gridftp::client::{PeerFeatures, Request};
use crate::gridftp::mode_e::HEADER_LEN;
use crate::transfer::DigestAlgorithm;
use crate::transfer::journal::PartialOrigin;
use crate::units::{Bytes, Rate};

/// How a transfer is guarded, as its ends agreed (`docs/protocol.md`, clauses I-1 and I-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// Blocks have checked headers; bad ones count as not received, and lost channels do not end
    /// the transfer.
    pub checks: bool,
    /// By what files are compared; with `checks` blocks too, on arrival, and journaled.
    pub digests: Option<DigestAlgorithm>,
    /// Blocks of nothing but zeros go as a header alone (clause Z-2). Only with `checks`.
    pub short_zeros: bool,
}

impl Integrity {
    /// Bytes of each block's header.
    pub fn header_len(self) -> usize {
        if self.checks { CHECKED_LEN } else { HEADER_LEN }
    }
}

/// The congestion control that the peer's channels are to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderControl {
    /// Its name.
    pub name: ControlName,
    /// Whether the user asked for it. What Farline chose by itself is no promise.
    pub is_asked: bool,
    /// Whether this end knows that there is such a control. What only the peer can know is waited
    /// for before anything moves: a word that no host knows is a mistake.
    pub is_known: bool,
}

/// What this end would have of a copy, whatever its peer can do.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// Blocks are checked.
    pub checks: bool,
    /// By what files are compared, if they are. A peer that does not know it uses BLAKE3.
    pub digests: Option<DigestAlgorithm>,
    /// All files take their final names together, at the end.
    pub is_atomic: bool,
    /// The destination takes bytes in order only.
    pub in_order: bool,
    /// Not faster than this.
    pub limit: Option<Rate>,
    /// The sender's congestion control, where the peer sends.
    pub control: Option<SenderControl>,
    /// The longest block of a tree, where it is not always 1 MiB.
    pub longest_block: Option<Bytes>,
    /// Socket buffers of the peer's data connections, where it sends.
    pub buffer: Option<Bytes>,
    /// The number of channels is the user's.
    pub are_channels_fixed: bool,
}

/// What both ends of a copy can do and this one wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// How blocks are guarded.
    pub integrity: Integrity,
    /// The longest block of the tree, from which and its size both ends have the same (T-12); none
    /// where it is 1 MiB whatever the size.
    pub longest_block: Option<Bytes>,
    /// The peer sends in order (`FARLINE ORDER`).
    pub is_ordered: bool,
    /// The peer holds what it sends to a rate (O-2).
    pub is_limited: bool,
    /// The peer changes what it sends by itself, or tells what limits it (D-1, D-3).
    pub adapts: bool,
    /// The peer takes all that is held, however scattered.
    pub takes_held: bool,
    /// The peer can be told how blocks are guarded (I-1).
    is_guarded: bool,
    /// The peer names what it leaves out of a tree that it sends (O-4).
    names_omissions: bool,
    /// The peer names what does not land of a tree that it stores (O-5).
    names_unlanded: bool,
    /// The peer lands each file of a tree that it stores when it is whole.
    lands_whole: bool,
}

impl Agreement {
    /// Between an end that wants `options` and a peer with `features`.
    pub fn of(features: &PeerFeatures, options: &CopyOptions) -> Agreement {
        let is_guarded = features.check;
        // Without checked blocks the file's digest is all there is.
        let checks = is_guarded && options.checks;
        Agreement {
            integrity: Integrity {
                checks,
                digests: options.digests.map(|wanted| match features.crc64 {
                    true => wanted,
                    false => DigestAlgorithm::Blake3,
                }),
                short_zeros: checks && features.zeros,
            },
            longest_block: options.longest_block.filter(|_| features.block),
            is_ordered: options.in_order && features.order,
            is_limited: options.limit.is_some() && features.limit,
            adapts: features.adapt,
            takes_held: features.held,
            is_guarded,
            names_omissions: features.omitted,
            names_unlanded: features.unlanded,
            lands_whole: features.landing && !options.is_atomic,
        }
    }

    /// The same for two peers that move data between them: guarded as both can.
    #[must_use]
    pub fn guarded_as(mut self, other: &Agreement) -> Agreement {
        self.longest_block = self.longest_block.and(other.longest_block);
        self.integrity.checks &= other.integrity.checks;
        self.integrity.short_zeros &= other.integrity.short_zeros;
        if self.integrity.digests != other.integrity.digests {
            self.integrity.digests = self
                .integrity
                .digests
                .and(other.integrity.digests)
                .and(Some(DigestAlgorithm::Blake3));
        }
        self
    }

    /// Tells the peer how blocks are guarded and, when it is to store, what the transfer is known
    /// by.
    pub fn guards(&self, origin: Option<&PartialOrigin>) -> Vec<Request> {
        let Integrity { checks, digests, short_zeros } = self.integrity;
        let mut requests = Vec::new();
        if self.is_guarded {
            requests.push(farline_option("check", if checks { "crc32c" } else { "none" }));
            requests.push(farline_option("digest", digests.map_or("none", DigestAlgorithm::name)));
            if short_zeros {
                requests.push(farline_option("zeros", "short"));
            }
            requests.extend(origin.map(|origin| {
                let source = blake3::Hash::from_bytes(origin.source).to_hex();
                farline_option("source", source.as_str())
            }));
        }
        if let Some(Bytes(longest)) = self.longest_block {
            requests.push(farline_option("block", &longest.to_string()));
        }
        if self.names_omissions && origin.is_none() {
            requests.push(farline_option("omitted", "named"));
        }
        if self.names_unlanded && origin.is_some() {
            requests.push(farline_option("unlanded", "named"));
        }
        if self.lands_whole && origin.is_some() {
            requests.push(farline_option("landing", "whole"));
        }
        requests
    }

    /// Lets the peer change what it sends by itself, or has it tell at least what limits it.
    pub fn adapt(&self, channels: bool, congestion: bool) -> Option<Request> {
        let what = match (channels, congestion) {
            (true, true) => "channels+congestion",
            (true, false) => "channels",
            (false, true) => "congestion",
            (false, false) => "none",
        };
        self.adapts.then(|| farline_option("adapt", what))
    }
}

/// The identity of a source (clause R-5): where it is, and which paths there.
pub fn source_of<'a>(host: &str, paths: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("farline 2026 source of a transfer");
    hasher.update(host.as_bytes());
    for path in paths {
        hasher.update(b"\0").update(path);
    }
    *hasher.finalize().as_bytes()
}
