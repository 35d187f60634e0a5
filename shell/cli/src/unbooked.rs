//! `--reserve` where this build has no calendar: it says so.

use crate::output::Output;
use farline::client::{CancelToken, Location, Options, Progress};
use farline_core::units::{Bytes, Error};
use serde::Serialize;
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// There is none.
#[derive(Clone, Debug)]
pub(crate) enum ReserveFlag {}

/// There is none.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum BookingSummary {}

/// There is none.
pub(crate) enum Booked {}

/// What never comes about.
#[allow(dead_code, reason = "nothing is booked by this build")]
pub(crate) enum Begun {
    Booked(Box<Booked>),
    Nothing,
    Ended(u8),
}

/// Says what this build lacks.
pub(crate) fn reserve_flag(_: &str) -> Result<ReserveFlag, Error> {
    Err(Error::not_built("`--reserve`", "calendar"))
}

pub(crate) fn begin(
    flag: &ReserveFlag,
    _: &[Location],
    _: &Location,
    _: &mut Options,
    _: &Runtime,
    _: &Output,
) -> Result<Begun, Error> {
    match *flag {}
}

#[allow(dead_code, reason = "a build may lack `plan` as well")]
pub(crate) fn plan(
    flag: &ReserveFlag,
    _: &str,
    _: Bytes,
    _: bool,
    _: &Output,
) -> Result<ExitCode, Error> {
    match *flag {}
}

pub(crate) fn refused(error: Error, _: &Output) -> Result<ExitCode, Error> {
    Err(error)
}

pub(crate) fn line(summary: &BookingSummary) -> String {
    match *summary {}
}

impl Booked {
    pub(crate) fn watch(
        &mut self,
        _: &CancelToken,
        _: impl Fn(&str) + Send + 'static,
    ) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn on_progress(&self, _: &Progress) {
        match *self {}
    }

    pub(crate) fn end(self, _: bool) -> (BookingSummary, Option<Error>) {
        match self {}
    }
}
