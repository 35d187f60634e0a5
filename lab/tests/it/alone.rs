//! Tests that need the machine's quiet, or its one list of congestion controls. They are of one
//! module so that they come one after another, and all others wait for them once.

mod causes;
mod cc;
mod cc_processes;
mod line;
mod measured;
mod profile;
mod tuning;
