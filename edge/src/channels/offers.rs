//! Which stacks can carry a copy's data, best first, and what follows when one of them does not
//! come about: pure, as `fi_getinfo` ranks libfabric's providers.

use super::driver::{Capabilities, Carries, Driver, Offered, Peer, Role, Transport};
use super::registry::Registry;
use super::stack::Stack;
use crate::drivers::Values;
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use std::collections::VecDeque;
use std::sync::Arc;

/// What data connections are needed for.
#[non_exhaustive]
pub struct Need<'a> {
    /// What the user asked for.
    pub asked: Option<&'a Stack>,
    /// Whether nobody on the way may read the data.
    pub encrypt: bool,
    /// Whether both ends have a key for the session's data connections (K-1).
    pub keyed: bool,
    /// What goes through the tunnel that carries the control connection, where one does.
    pub tunnel: Tunnelled,
    /// The other end.
    pub peer: Peer<'a>,
}

/// Whether data may go through what carries the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnelled {
    /// Nothing carries it.
    No,
    /// It may, where no port can be reached.
    May,
    /// It must: it was arranged in the clear for that.
    Must,
    /// It goes to the control connection's own port, by the driver of that name and no other.
    OnePort(&'static str),
}

/// A way to open a copy's data connections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Offer {
    /// Over what.
    pub stack: Stack,
    /// To where.
    pub route: Route,
    /// What is not as it was asked for, and why.
    pub notes: Vec<String>,
    /// Whether the user asked for it.
    pub is_asked: bool,
}

/// To where a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// To a port that the node opens for the session.
    Straight,
    /// To the node's control port (K-5).
    ControlPort,
    /// Through what carries the control connection (H-2).
    Tunnel,
}

/// What can be, best first, and what was asked for and cannot be.
#[derive(Debug)]
#[non_exhaustive]
pub struct Offers {
    /// Best first.
    pub ranked: Vec<Offer>,
    /// The asked driver, and why it is not among them.
    pub refused: Option<(Arc<Driver>, Error)>,
}

impl Registry {
    /// What can carry data that is needed so.
    ///
    /// # Errors
    /// When nothing can.
    pub fn offers(&self, need: &Need<'_>) -> Result<Offers, Error> {
        let mut ranked = Vec::new();
        let mut refused = None;
        let mut tunnel = need.tunnel;
        if let Tunnelled::OnePort(name) = tunnel {
            return self.one_port(need, name);
        }
        let always = |can: &Capabilities| can.offered == Offered::Always;
        if need.encrypt && !need.keyed {
            let message = format!("{} encrypts, but knows no keys", need.peer.server);
            return Err(Error::new(Fault::There, ErrorCode::CannotEncrypt, message));
        }
        if let Some(asked) = need.asked {
            if asked.is_encrypted() && !need.encrypt && need.tunnel == Tunnelled::No {
                let message = format!("{asked} needs a control connection that is encrypted too");
                return Err(Error::new(Fault::You, ErrorCode::CannotEncrypt, message)
                    .hint("write farlines:// or ftps://, or host:path to go over ssh"));
            }
            let is_tunnel = asked.channel.capabilities.offered == Offered::AsTheControlConnection;
            if is_tunnel && tunnel == Tunnelled::No {
                let message = format!("the control connection is not over {}", asked.channel.title);
                let error = Error::new(Fault::You, ErrorCode::BadChannel, message);
                return Err(error.hint("write host:path to go over ssh"));
            }
            if is_tunnel {
                // What is arranged in the clear for it goes no other way.
                tunnel = Tunnelled::Must;
            } else if !always(&asked.channel.capabilities) && tunnel != Tunnelled::Must {
                match self.offer(need, &asked.channel, &asked.values, Route::Straight) {
                    Ok(offer) => ranked.push(Offer { is_asked: true, ..offer }),
                    Err(error) => refused = Some((Arc::clone(&asked.channel), error)),
                }
            }
        }
        let of =
            |offered| self.drivers().filter(move |driver| driver.capabilities.offered == offered);
        let routes: &[(Offered, Route)] = match tunnel {
            _ if !need.keyed => &[(Offered::Always, Route::Straight)],
            Tunnelled::Must => &[(Offered::AsTheControlConnection, Route::Tunnel)],
            Tunnelled::May => &[
                (Offered::Always, Route::Straight),
                (Offered::AsTheControlConnection, Route::Tunnel),
            ],
            Tunnelled::No | Tunnelled::OnePort(_) => {
                &[(Offered::Always, Route::Straight), (Offered::Always, Route::ControlPort)]
            }
        };
        for &(offered, route) in routes {
            let offers =
                of(offered).map(|driver| self.offer(need, driver, &Values::default(), route));
            ranked.extend(offers.filter_map(Result::ok));
        }
        if ranked.is_empty() {
            let message = format!("no channel driver leads to {}", need.peer.server);
            let none = || Error::new(Fault::Here, ErrorCode::NoChannel, message);
            return Err(refused.map_or_else(none, |(_, error)| error));
        }
        Ok(Offers { ranked, refused })
    }

    /// The one way where control and data share a port.
    fn one_port(&self, need: &Need<'_>, name: &str) -> Result<Offers, Error> {
        let none = || {
            let message = format!("this program has no channels over {name}");
            Error::new(Fault::Here, ErrorCode::NoChannel, message)
        };
        let driver = self.find(name).ok_or_else(none)?;
        let values = match need.asked {
            None => Values::default(),
            Some(asked) if asked.channel.name == name => asked.values.clone(),
            Some(asked) => {
                let message = format!(
                    "{asked} has ports of its own, and {} is reached by one port over {}",
                    need.peer.server, driver.title
                );
                return Err(Error::new(Fault::You, ErrorCode::BadChannel, message)
                    .hint("write farlines:// to choose a channel"));
            }
        };
        let offer = self.offer(need, driver, &values, Route::Straight)?;
        Ok(Offers { ranked: vec![offer], refused: None })
    }

    /// One driver for `need`, with the layers that it takes.
    fn offer(
        &self,
        need: &Need<'_>,
        driver: &Arc<Driver>,
        values: &Values,
        route: Route,
    ) -> Result<Offer, Error> {
        let Role::Channel(transport) = &driver.role else {
            return Err(Error::new(Fault::Bug, ErrorCode::NoChannel, "a layer alone"));
        };
        let transport: &dyn Transport = &**transport;
        let can = &driver.capabilities;
        transport.available()?;
        let mut layers = Vec::new();
        if need.encrypt && !can.encrypted {
            let layer = self.encrypting_layer().filter(|_| can.carries == Carries::OrderedBytes);
            let message = || format!("nothing encrypts {}", driver.title);
            layers.push(Arc::clone(layer.ok_or_else(|| {
                Error::new(Fault::You, ErrorCode::CannotEncrypt, message())
                    .hint(format!("{} lets data go in the clear", Setting::NoEncrypt))
            })?));
        }
        let agreed = transport.agree(values, &need.peer)?;
        if can.needs_key && !need.keyed {
            let message = format!("{} needs a key, and the node takes none", driver.title);
            return Err(Error::new(Fault::There, ErrorCode::Unsupported, message));
        }
        let stack = Stack { layers, channel: Arc::clone(driver), values: agreed.values };
        Ok(Offer { stack, route, notes: agreed.notes, is_asked: false })
    }
}

/// Goes through the offers as one after the other does not come about.
#[derive(Debug)]
pub struct Fallback {
    left: VecDeque<Offer>,
    tried: Option<Offer>,
    /// Of the first offer that nobody asked for: it says most of the path.
    first: Option<Error>,
    /// Why what was asked for did not come about.
    instead: Option<String>,
}

impl Fallback {
    /// Begins with the best.
    pub fn new(offers: Offers) -> Fallback {
        let refused = offers.refused.as_ref().zip(offers.ranked.first());
        let instead =
            refused.map(|((asked, error), best)| instead(best.stack.channel(), asked, error));
        Fallback { left: offers.ranked.into(), tried: None, first: None, instead }
    }

    /// What to try next.
    pub fn try_next(&mut self) -> Option<Offer> {
        self.tried = self.left.pop_front();
        self.tried.clone()
    }

    /// What was tried last did not come about.
    ///
    /// # Errors
    /// When nothing else would either.
    pub fn failed(&mut self, error: Error) -> Result<(), Error> {
        let tried = self.tried.take();
        let is_asked = tried.as_ref().is_some_and(|offer| offer.is_asked);
        match self.left.front() {
            // What the user gave for the driver that always is there holds for all its routes.
            Some(_) if !is_asked && error.fault == Fault::You => Err(error),
            Some(next) => {
                match tried {
                    Some(asked) if is_asked => {
                        let note = instead(next.stack.channel(), asked.stack.channel(), &error);
                        self.instead = Some(note);
                    }
                    _ => self.first = self.first.take().or(Some(error)),
                }
                Ok(())
            }
            None => match tried {
                Some(Offer { route: Route::ControlPort, .. }) => {
                    Err(self.first.take().unwrap_or(error))
                }
                _ => Err(error),
            },
        }
    }

    /// What came about is this offer: what is not as it was asked for, and why.
    pub fn notes(self) -> Vec<String> {
        let agreed = self.tried.into_iter().flat_map(|offer| offer.notes);
        self.instead.into_iter().chain(agreed).collect()
    }

    /// Why data goes over another channel than was asked for, which is the first of the notes.
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }
}

/// Why data goes over `driver`, and not over the one that was asked for.
fn instead(driver: &Driver, asked: &Driver, error: &Error) -> String {
    let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("over {} instead of {}: {}{hint}", driver.title, asked.title, error.message)
}

#[cfg(test)]
#[cfg(feature = "tls")]
mod tests;
