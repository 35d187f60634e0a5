//! What stands in for GSI in a build without OpenSSL: nobody comes by it.

use super::ordered::ByteStream;
use super::trust::{GridSecurity, ShownCertificate};
use farline_core::units::Error;
use std::convert::Infallible;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Gsi(Infallible);

impl Gsi {
    /// # Errors
    /// Always: this build has no GSI.
    pub(crate) fn open(_: &GridSecurity) -> Result<Gsi, Error> {
        Err(Error::not_built("gsiftp://", "gsi"))
    }

    pub(crate) fn accept(&self) -> Result<Acceptor, String> {
        match self.0 {}
    }
}

pub(crate) struct Acceptor(Infallible);

impl Acceptor {
    pub(crate) fn take(self, _: &[u8]) -> Result<(Option<Acceptor>, Step), String> {
        match self.0 {}
    }
}

#[expect(dead_code, reason = "nobody comes so far")]
pub(crate) enum Step {
    More(Vec<u8>),
    Done(Box<GssContext>, Peer, Option<DataSecurity>),
}

#[derive(Debug)]
pub(crate) struct GssContext(Infallible);

impl GssContext {
    pub(crate) fn seal(&mut self, _: &[u8]) -> Result<Vec<u8>, String> {
        match self.0 {}
    }

    pub(crate) fn open(&mut self, _: &[u8]) -> Result<Vec<u8>, String> {
        match self.0 {}
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) certificate: ShownCertificate,
}

#[derive(Clone, Debug)]
pub(crate) struct DataSecurity(Infallible);

impl DataSecurity {
    pub(crate) fn with(&self, _: Option<&str>, _: bool) -> DataSecurity {
        match self.0 {}
    }

    pub(crate) fn accept(&self) -> io::Result<DataHandshake> {
        match self.0 {}
    }

    pub(crate) fn connect(&self, _: TcpStream, _: Duration) -> io::Result<Box<dyn ByteStream>> {
        match self.0 {}
    }
}

pub(crate) struct DataHandshake(Infallible);

impl DataHandshake {
    pub(crate) fn over(self, _: TcpStream) -> io::Result<Box<dyn ByteStream>> {
        match self.0 {}
    }

    pub(crate) async fn run(&mut self, _: &mut tokio::net::TcpStream) -> io::Result<()> {
        match self.0 {}
    }
}
