//! The commands that get a request done.

use super::config::{ClientConfig, Pipelining};
use super::features::PeerFeatures;
use super::request::{Request, Transfer, TransferKind};
use crate::gridftp::Pathname;
use crate::gridftp::address::Family;
use crate::gridftp::command::{Command, Epsv, Extent, Mode, Restart, Site, Type};
use crate::units::{Error, ErrorCode, Fault};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// One command of a request.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) command: Command,
    pub(super) role: Role,
}

/// What a command's final reply means for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// ABOR: belongs to no request.
    Abort,
    /// FEAT: any reply will do; a good one is read.
    Features,
    /// MLST and MLSC: the entries.
    Entries,
    /// Any final reply will do.
    Optional,
    /// PASV, SPAS: the addresses.
    Passive,
    /// EPSV: the address, or on to PASV.
    PassiveOrPlain,
    /// PASS.
    Password,
    /// It must succeed.
    Required,
    /// SIZE and MDTM in place of MLST.
    PlainStat,
    /// A transfer.
    Transfer,
    /// USER: in, or on to PASS.
    User,
}

/// How a command goes with others in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Alone: what follows depends on its reply.
    Alone,
    /// With others; a transfer waits for it unless the server is known to keep order.
    Command,
    /// A transfer.
    Transfer,
}

impl Step {
    pub(super) fn class(&self, pipelining: Pipelining) -> Class {
        match self.role {
            Role::Transfer => Class::Transfer,
            Role::Password => Class::Alone,
            Role::Features | Role::Passive | Role::PassiveOrPlain | Role::User
                if pipelining != Pipelining::Transfers =>
            {
                Class::Alone
            }
            _ => match self.command {
                Command::Auth(_) | Command::Quit => Class::Alone,
                // Were it refused, what follows would move data in a form nobody expects. Farline
                // knows both modes.
                Command::Mode(_) if pipelining != Pipelining::Transfers => Class::Alone,
                _ => Class::Command,
            },
        }
    }

    /// Whether the server may be silent for as long as it likes.
    pub(super) fn may_take_long(&self) -> bool {
        self.role == Role::Transfer || matches!(self.command, Command::Checksum { .. })
    }
}

const fn step(command: Command, role: Role) -> Step {
    Step { command, role }
}

/// The steps of `request`, where the server is in `mode` if that is known.
///
/// # Errors
/// When this server cannot do it, or the request contradicts itself.
pub(super) fn steps(
    request: Request,
    features: &PeerFeatures,
    config: &ClientConfig,
    mode: Option<Mode>,
    pipelining: Pipelining,
) -> Result<VecDeque<Step>, Error> {
    let steps = match request {
        Request::Active { mode: wanted, addresses } => {
            in_mode(wanted, mode, step(active(addresses), Role::Required))
        }
        Request::Exec(command) => {
            let role = match command {
                Command::Passive
                | Command::StripedPassive(_)
                | Command::ExtendedPassive(Epsv::Any | Epsv::Family(_)) => Role::Passive,
                _ => Role::Required,
            };
            vec![step(command, role)]
        }
        Request::ToFarline(request) if features.is_farline => {
            return steps(*request, features, config, mode, pipelining);
        }
        Request::ToFarline(_) => {
            return Err(Error::new(
                Fault::There,
                ErrorCode::Unsupported,
                "the server is not Farline",
            ));
        }
        Request::List(path) if features.mlsc => {
            vec![step(Command::MachineListControl(Some(path)), Role::Entries)]
        }
        Request::List(_) => {
            return Err(Error::new(
                Fault::There,
                ErrorCode::Unsupported,
                "the server does not list on the control channel (MLSC)",
            )
            .hint("list over a data channel (MLSD)"));
        }
        Request::Login { user, password } => {
            let mut steps = vec![step(Command::User(user.into_bytes()), Role::User)];
            if pipelining == Pipelining::Transfers {
                steps.push(step(Command::Password(password.into_bytes()), Role::Required));
            }
            steps.push(step(Command::Features, Role::Features));
            let info = config
                .client_info
                .clone()
                .map(|info| step(Command::Site(Site::ClientInfo(info)), Role::Optional));
            steps.extend(info);
            steps.push(step(Command::Type(Type::Image), Role::Required));
            steps
        }
        Request::Passive { mode: wanted, striped: true } => {
            let family = config
                .host
                .map(|host| Family::of(&SocketAddr::new(host, 0)))
                .filter(|&family| family == Family::V6);
            in_mode(wanted, mode, step(Command::StripedPassive(family), Role::Passive))
        }
        // RFC 2428 section 3: EPSV works through address translation, where PASV's address may be
        // another's.
        Request::Passive { mode: wanted, striped: false } => {
            in_mode(wanted, mode, step(Command::ExtendedPassive(Epsv::Any), Role::PassiveOrPlain))
        }
        Request::Rename { from, to } => {
            vec![
                step(Command::RenameFrom(from), Role::Required),
                step(Command::RenameTo(to), Role::Required),
            ]
        }
        Request::Stat(path) if features.mlst => {
            vec![step(Command::MachineStatus(Some(path)), Role::Entries)]
        }
        Request::Stat(path) => {
            vec![
                step(Command::Size(path.clone()), Role::PlainStat),
                step(Command::ModifiedTime(path), Role::PlainStat),
            ]
        }
        Request::Transfer(transfer) => transfer_steps(transfer, mode)?,
    };
    // Refused now rather than when half of them are sent.
    steps.iter().try_for_each(|step| step.command.encode().map(drop))?;
    Ok(steps.into())
}

/// `step`, after MODE when the server is in another.
fn in_mode(wanted: Mode, current: Option<Mode>, wants: Step) -> Vec<Step> {
    let change = (current != Some(wanted)).then(|| step(Command::Mode(wanted), Role::Required));
    change.into_iter().chain([wants]).collect()
}

fn active(addresses: Vec<SocketAddr>) -> Command {
    match addresses[..] {
        [address] if address.is_ipv4() => Command::Port(address),
        [address] => Command::ExtendedPort(address),
        _ => Command::StripedPort(addresses),
    }
}

fn transfer_steps(transfer: Transfer, current: Option<Mode>) -> Result<Vec<Step>, Error> {
    let Transfer { what, path, part, module, held, size } = transfer;
    let contradiction = |why: &str| Err(Error::new(Fault::Bug, ErrorCode::BadRequest, why));
    let mut steps = Vec::new();
    let Some(mode) = current else {
        return Err(Error::new(
            Fault::There,
            ErrorCode::Unsupported,
            "the server refused the mode this transfer was to use",
        ));
    };
    if let Some(size) = size.filter(|_| what == TransferKind::Store) {
        steps.push(step(Command::Allocate(size), Role::Optional));
    }
    if let Some(first) = held.iter().next() {
        let restart = match mode {
            Mode::Extended => Restart::Held(held.clone()),
            _ if first.start == 0 && held.count() == 1 => Restart::Offset(first.end),
            _ => return contradiction("MODE S restarts from one offset"),
        };
        steps.push(step(Command::Restart(restart), Role::Required));
    }
    let extent = match (part, module) {
        (Some(_), Some(_)) => return contradiction("a transfer has a part or a module, not both"),
        (Some((offset, _)), None) if what == TransferKind::Store => Some(Extent::At { offset }),
        (Some((offset, length)), None) => Some(Extent::Part { offset, length }),
        (None, Some(module)) => Some(Extent::Module(module)),
        (None, None) => None,
    };
    let command = match (what, extent) {
        (TransferKind::Retrieve, None) => Command::Retrieve(path),
        (TransferKind::Retrieve, Some(extent)) => Command::ExtendedRetrieve(extent, path),
        (TransferKind::Store, None) => Command::Store(path),
        (TransferKind::Store, Some(extent)) => Command::ExtendedStore(extent, path),
        (TransferKind::List, None) => Command::MachineList(Some(path)),
        (TransferKind::LongList, None) => Command::List(Some(path)),
        (TransferKind::LongListAll, None) => {
            Command::List(Some(Pathname::new([&b"-a "[..], path.as_bytes()].concat())))
        }
        (TransferKind::List | TransferKind::LongList | TransferKind::LongListAll, Some(_)) => {
            return contradiction("a listing has no part and no module");
        }
    };
    steps.push(step(command, Role::Transfer));
    Ok(steps)
}
