//! Steps that take long, in a thread of their own: a circuit opens at its time while another is
//! made.

use super::connection::AgentMessage;
use super::driver::CircuitDriver;
use farline_core::calendar::Topology;
use farline_core::calendar::circuit::CircuitStep;
use std::sync::mpsc::{Sender, channel};

/// The thread's other end; it ends with it, behind the step that it is at.
#[derive(Debug)]
pub(super) struct Worker(Sender<CircuitStep>);

impl Worker {
    /// Does steps by `driver`, and says how each went to `back`. None where no thread can be had.
    pub(super) fn new(
        mut driver: Box<dyn CircuitDriver>,
        topology: Topology,
        back: Sender<AgentMessage>,
    ) -> Option<Worker> {
        let (steps, to_do) = channel::<CircuitStep>();
        let work = move || {
            while let Ok(step) = to_do.recv() {
                let done = driver.step(&topology, &step);
                if back.send(AgentMessage::Did(step, done)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("circuits".to_owned()).spawn(work);
        thread.ok().map(|_| Worker(steps))
    }

    /// Begins a step behind those that were begun; returns false where nobody does it.
    pub(super) fn begin(&self, step: &CircuitStep) -> bool {
        self.0.send(step.clone()).is_ok()
    }
}
