//! What stands in for GSI in a build without OpenSSL: nobody comes by it.

use super::ordered::ByteStream;
use super::pending::Steps;
use super::trust::{Fingerprint, GridProxy, GridSecurity, ShownCertificate};
use farline_core::units::Error;
use std::convert::Infallible;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Gsi(Infallible);

impl Gsi {
    /// # Errors
    /// Always: this build has no GSI.
    pub(crate) fn open(_: &GridSecurity) -> Result<Gsi, Error> {
        Err(Error::not_built("gsiftp://", "gsi"))
    }

    pub(crate) fn news(&self) -> Option<String> {
        match self.0 {}
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
    pub(crate) attributes: Vec<String>,
    pub(crate) refused_attributes: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct DataSecurity(Infallible);

impl DataSecurity {
    pub(crate) fn with(&self, _: Option<&str>, _: bool) -> DataSecurity {
        match self.0 {}
    }

    pub(crate) fn is_private(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn connect_later(&self, _: TcpStream, _: Duration) -> Box<dyn ByteStream> {
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

    pub(crate) async fn run(&mut self, _: &mut tokio::net::TcpStream, _: &Steps) -> io::Result<()> {
        match self.0 {}
    }
}

/// Whom a client means to talk to.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "nobody is asked so")]
pub(crate) struct WantedServer {
    pub(crate) host: String,
    pub(crate) fingerprint: Option<Fingerprint>,
}

#[expect(dead_code, reason = "nobody is asked so")]
pub(crate) enum Distrust {
    Unknown(String),
    Other(String),
}

impl From<String> for Distrust {
    fn from(why: String) -> Distrust {
        Distrust::Unknown(why)
    }
}

pub(crate) struct Initiator(Infallible);

impl Initiator {
    pub(crate) fn new(proxy: &UserProxy, _: WantedServer) -> Result<Initiator, Distrust> {
        match proxy.0 {}
    }

    pub(crate) fn take(&mut self, _: &[u8]) -> Result<Vec<u8>, Distrust> {
        match self.0 {}
    }

    pub(crate) fn finish(self) -> Result<GssContext, Distrust> {
        match self.0 {}
    }
}

#[derive(Clone)]
pub(crate) struct UserProxy(Infallible);

impl UserProxy {
    /// # Errors
    /// Always: this build has no GSI.
    pub(crate) fn find(_: &GridProxy) -> Result<UserProxy, Error> {
        Err(Error::not_built("gsiftp://", "gsi"))
    }

    pub(crate) fn subject(&self) -> &str {
        match self.0 {}
    }

    pub(crate) fn authorities(&self) -> &Path {
        match self.0 {}
    }

    pub(crate) fn data(&self) -> DataSecurity {
        match self.0 {}
    }
}
