//! What crosses between a network's handle and its emulator: orders, and what is there afterwards.

use super::super::failure::Report;
use farline_core::units::{Rate, Span};
use serde::{Deserialize, Serialize};

/// A circuit as it is ordered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkCircuit {
    /// Its number: devices are called `c` and this.
    pub number: u32,
    /// The site where it begins.
    pub from: String,
    /// The site where it ends.
    pub to: String,
    /// The links that it takes, by their names.
    pub route: Vec<String>,
    /// What it carries.
    pub rate: Rate,
    /// Whether the way back carries the rate too; else a fiftieth of it, for acknowledgements.
    pub both_ways: bool,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NetworkOrder {
    /// Says what is there.
    Show,
    /// Makes a circuit's devices, shut: what is sent into it goes nowhere. One that is there stays.
    Prepare(NetworkCircuit),
    /// Opens a circuit, which takes its rate from best effort.
    Open(u32),
    /// Gives a circuit another rate; nothing that is on its way is lost.
    Change(u32, Rate),
    /// Shuts a circuit: what is sent into it goes nowhere from now on.
    Shut(u32),
    /// Removes a circuit's devices. One that is not there is no error.
    Remove(u32),
}

/// A circuit as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CircuitState {
    /// As it was ordered; the rate is that of now.
    pub circuit: NetworkCircuit,
    /// Whether it is open.
    pub open: bool,
    /// From end to end.
    pub one_way_delay: Span,
    /// The device in both namespaces.
    pub device: String,
    /// The address where it begins.
    pub from_address: String,
    /// The address where it ends.
    pub to_address: String,
    /// Bytes of IP packets that were delivered, there and back.
    pub carried: [u64; 2],
    /// Frames that its queue had no room for, there and back.
    pub dropped: [u64; 2],
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkState {
    /// The circuits, by number.
    pub circuits: Vec<CircuitState>,
    /// What each pair of neighbours has for best effort: names, there, and back.
    pub best_effort: Vec<(String, String, Rate, Rate)>,
}

/// What an order came to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OrderReply {
    Done(NetworkState),
    Failed(Report),
}
