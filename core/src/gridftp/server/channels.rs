//! PASV, EPSV, SPAS, PORT, EPRT, SPOR: where data channels meet.

use super::ask::Ask;
use super::session::ServerSession;
use super::state::{Data, PassiveForm, Purpose};
use crate::gridftp::Reply;
use crate::gridftp::address::{Family, extended, extended_port, host_port};
use crate::gridftp::command::Epsv;
use crate::units::{Error, ErrorCode, Fault};
use std::net::SocketAddr;

impl ServerSession {
    pub(super) fn extended_passive(&mut self, which: Epsv) {
        match which {
            Epsv::Any => self.passive(PassiveForm::Extended, None),
            Epsv::Family(family) => self.passive(PassiveForm::Extended, Some(family)),
            Epsv::All => {
                self.settings.only_epsv = true;
                self.say(200, "EPSV ALL command successful.");
            }
        }
    }

    pub(super) fn passive(&mut self, form: PassiveForm, family: Option<Family>) {
        if form != PassiveForm::Extended && self.refused_by_epsv_all() {
            return;
        }
        self.data = Data::None;
        // PASV's reply holds an IPv4 address only; `SPAS` without a family lists the same form.
        let family =
            if form == PassiveForm::Extended { family } else { family.or(Some(Family::V4)) };
        self.ask(
            Ask::Passive { family, striped: form == PassiveForm::Striped },
            Purpose::Passive(form),
        );
    }

    pub(super) fn passive_answer(&mut self, form: PassiveForm, addresses: Vec<SocketAddr>) {
        let reply = match (form, addresses.first()) {
            (PassiveForm::Striped, Some(_)) => {
                let line = |address: &SocketAddr| {
                    format!(" {}", host_port(address).unwrap_or_else(|| extended(address)))
                };
                let lines = std::iter::once("Entering Striped Passive Mode.".to_owned())
                    .chain(addresses.iter().map(line))
                    .chain(["End".to_owned()]);
                Reply::new(229, lines)
            }
            (PassiveForm::Extended, Some(address)) => Reply::line(
                229,
                format!("Entering Extended Passive Mode ({})", extended_port(address.port())),
            ),
            (PassiveForm::Plain, Some(address)) => match host_port(address) {
                Some(text) => Reply::line(227, format!("Entering Passive Mode ({text})")),
                // RFC 2428 section 2: 522 names the families; for PASV the client is sent to EPSV.
                None => Reply::line(522, "PASV cannot tell an IPv6 address; use EPSV (2)"),
            },
            (_, None) => {
                return self.fail(&Error::new(
                    Fault::Bug,
                    ErrorCode::DataConnection,
                    "no address to listen on",
                ));
            }
        };
        if reply.is_success() {
            self.data = Data::Passive;
        }
        self.reply(reply);
    }

    pub(super) fn active(&mut self, verb: &'static str, addresses: Vec<SocketAddr>) {
        if self.refused_by_epsv_all() {
            return;
        }
        self.data = Data::None;
        self.ask(Ask::Active { addresses }, Purpose::Active(verb));
    }

    pub(super) fn active_answer(&mut self, verb: &str) {
        self.data = Data::Active;
        self.say(200, format!("{verb} command successful."));
    }

    /// RFC 2428 section 4: after EPSV ALL no other way is taken.
    fn refused_by_epsv_all(&mut self) -> bool {
        if self.settings.only_epsv {
            self.say(503, "After EPSV ALL only EPSV is.");
        }
        self.settings.only_epsv
    }
}
