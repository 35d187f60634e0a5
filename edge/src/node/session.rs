//! One client's session: the control connection around the core's server machine.

use super::accounts::Shown;
use super::arrival::Arrival;
use super::checksum::{self, WantedChecksum};
use super::config::Anonymous;
use super::data::DataPlane;
use super::files::Files;
use super::quota::QuotaShare;
use super::reporter::Reporter;
use super::wire::{Received, Wire};
use super::{Shared, adapt, data_listener, line, profile, stores, told_path, tree};
use crate::channels::Registry;
use crate::mover::{Cancel, LiveRate, TREE_MODULE};
use crate::sys::host::kernel_id;
use crate::sys::lock::lock;
use farline_core::gridftp::omission;
use farline_core::gridftp::server::{
    Answer, Ask, Input, Logins, Output, Rights, ServerConfig, ServerSession,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Time};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long a client that is let in may leave a reply unread.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves one client to the end of its session.
pub(super) async fn serve(shared: Arc<Shared>, mut wire: Wire, arrival: Arrival) {
    let began = Instant::now();
    let mut visitor = shared.admission.enter(arrival.peer.ip());
    let login_timeout = shared.config.limits.login_timeout;
    let now = || Time::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut session = ServerSession::new(rules(&shared, &arrival), now());
    let mut shown = Shown::default();
    // Over one UDP port the handshake is done.
    shown.certificates(wire.certificates());
    // A transfer has its data to itself; this it heeds while it runs.
    let limit = LiveRate::new(Rate::default());
    let plane = DataPlane::new(Arc::clone(&shared), arrival.clone(), shown, limit.clone());
    let data = Arc::new(Mutex::new(plane));
    let (answers, mut answered) = mpsc::unbounded_channel::<(u64, Answer)>();
    let mut cancel = Cancel::new();
    let mut received = vec![0; 16 * 1024];
    let mut fresh = true;
    loop {
        let wake = loop {
            match session.poll(now()) {
                Output::Send(bytes) => {
                    // Who reads nothing holds a place, and what it asked for, for no longer.
                    let within = if visitor.is_in() { REPLY_TIMEOUT } else { login_timeout };
                    let sent = tokio::select! {
                        sent = tokio::time::timeout(within, wire.write(&bytes)) => {
                            matches!(sent, Ok(Ok(())))
                        }
                        _ = visitor.expelled() => false,
                    };
                    if !sent {
                        session.handle(now(), Input::Closed);
                    }
                }
                Output::Ask { id, ask: Ask::Admit } => {
                    let account = lock(&data).account().clone();
                    let named = account.name.as_deref().map(|name| (name, account.sessions));
                    let answer =
                        visitor.log_in(named).map_or_else(Answer::Failed, |()| Answer::Done);
                    session.handle(now(), Input::Answer { id, answer });
                }
                Output::Ask { id, ask } => {
                    cancel = Cancel::new();
                    let job = Job {
                        shared: Arc::clone(&shared),
                        data: Arc::clone(&data),
                        cancel: cancel.clone(),
                    };
                    let answers = answers.clone();
                    tokio::task::spawn_blocking(move || job.answer(id, ask, answers));
                }
                Output::Abort { .. } => {
                    cancel.cancel(Error::new(
                        Fault::You,
                        ErrorCode::Aborted,
                        "the client ended the transfer",
                    ));
                }
                // What is no number is told in its turn.
                Output::OptionAtOnce { value, .. } => drop(limit.heed(&value)),
                Output::CloseChannels => {
                    let data = Arc::clone(&data);
                    // Behind the running job, if there is one.
                    tokio::task::spawn_blocking(move || as_owner(&data, DataPlane::close_channels));
                }
                Output::CloseData => {
                    let data = Arc::clone(&data);
                    tokio::task::spawn_blocking(move || as_owner(&data, DataPlane::close_data));
                }
                Output::Close => {
                    if session.is_login_late() {
                        let ip = arrival.peer.ip();
                        let late = format_args!("{ip} did not log in in time");
                        shared.notices.say("login_timeout", late);
                    }
                    cancel.cancel(Error::new(
                        Fault::You,
                        ErrorCode::Aborted,
                        "the client went away",
                    ));
                    // What it held is free for others before its connection is closed, which may take.
                    drop(data);
                    wire.close().await;
                    return;
                }
                Output::StartTls { early } => {
                    // Whoever cannot do the handshake has no session to go on with.
                    let Some(certificate) = &arrival.certificate else { return };
                    let Ok(mut shown) = Shown::new(&shared, certificate) else { return };
                    let config = shown.tls.as_ref().map_or(&certificate.config, |tls| &tls.control);
                    let config = Arc::clone(config);
                    let within = match visitor.is_in() {
                        true => login_timeout,
                        false => login_timeout.saturating_sub(began.elapsed()),
                    };
                    let tls = tokio::select! {
                        tls = tokio::time::timeout(within, wire.start_tls(config, early)) => tls,
                        _ = visitor.expelled() => return,
                    };
                    match tls {
                        Ok(Ok(tls)) => wire = tls,
                        Ok(Err(error)) => {
                            // Who only looks whether there is TLS is no line.
                            if error.kind() == std::io::ErrorKind::InvalidData {
                                let what = format_args!("{}: TLS: {error}", arrival.peer.ip());
                                shared.notices.say("refused", what);
                            }
                            return;
                        }
                        Err(_) => {
                            let ip = arrival.peer.ip();
                            shared.notices.say(
                                "login_timeout",
                                format_args!("{ip} did not end its TLS handshake in time"),
                            );
                            return;
                        }
                    }
                    shown.certificates(wire.certificates());
                    // What was arranged in the clear anybody may have arranged.
                    *lock(&data) =
                        DataPlane::new(Arc::clone(&shared), arrival.clone(), shown, limit.clone());
                }
                Output::StartGssapi => {
                    let Some(gsi) = &shared.gsi else { return };
                    let ip = arrival.peer.ip();
                    let within = match visitor.is_in() {
                        true => login_timeout,
                        false => login_timeout.saturating_sub(began.elapsed()),
                    };
                    let exchange = wire.start_gssapi(Arc::clone(gsi));
                    let came = tokio::select! {
                        came = tokio::time::timeout(within, exchange) => came,
                        _ = visitor.expelled() => return,
                    };
                    let shown = match came {
                        Ok(Ok((protected, client))) => {
                            wire = protected;
                            if let Some(why) = &client.peer.refused_attributes {
                                let what = format_args!("attributes from {ip} do not count: {why}");
                                shared.notices.say("voms", what);
                            }
                            Shown::by_gsi(client)
                        }
                        Ok(Err(why)) => {
                            shared.notices.say("refused", format_args!("{ip}: {why}"));
                            return;
                        }
                        Err(_) => {
                            shared.notices.say(
                                "login_timeout",
                                format_args!("{ip} did not end its exchange of ADAT in time"),
                            );
                            return;
                        }
                    };
                    // What was arranged in the clear anybody may have arranged.
                    *lock(&data) =
                        DataPlane::new(Arc::clone(&shared), arrival.clone(), shown, limit.clone());
                }
                Output::Wait(wake) => break wake,
            }
        };
        let idle = async {
            match wake {
                Some(at) => tokio::time::sleep(at.since(now()).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            came = wire.receive(fresh, &mut received), if session.wants_input() => {
                fresh = false;
                visitor.spoke();
                match came {
                    Received::Nothing => session.handle(now(), Input::Closed),
                    Received::Bytes(len) => session.handle(now(), Input::Received(&received[..len])),
                    Received::Preamble(preamble) => {
                        if let Wire::Tcp(stream) = wire {
                            tokio::select! {
                                () = shared.listeners.admit(&preamble, stream) => {}
                                _ = visitor.expelled() => {}
                            }
                        }
                        return;
                    }
                }
            }
            Some((id, answer)) = answered.recv() => session.handle(now(), Input::Answer { id, answer }),
            why = visitor.expelled() => session.handle(now(), Input::Expelled(why)),
            () = idle => continue,
        }
        visitor.active(session.is_busy());
    }
}

fn rules(shared: &Shared, arrival: &Arrival) -> ServerConfig {
    let is_secure = arrival.over_ssh || arrival.one_port.is_some();
    let logins = match shared.config.anonymous {
        _ if arrival.over_ssh => Logins::Anyone(Rights::Write),
        anonymous if shared.gsi.is_some() || !shared.config.identities.is_empty() => {
            Logins::Asked {
                anonymous: match anonymous {
                    Anonymous::None => None,
                    Anonymous::Read => Some(Rights::Read),
                    Anonymous::Write => Some(Rights::Write),
                },
            }
        }
        Anonymous::None => Logins::Asked { anonymous: None },
        Anonymous::Read => Logins::Anonymous(Rights::Read),
        Anonymous::Write => Logins::Anonymous(Rights::Write),
    };
    ServerConfig {
        banner: format!("Farline {} GridFTP server ready.", env!("CARGO_PKG_VERSION")),
        logins,
        features: [
            [tree::FEATURE, tree::CHECK_FEATURE, tree::ZEROS_FEATURE, adapt::FEATURE]
                .map(str::to_owned)
                .to_vec(),
            [
                data_listener::FEATURE,
                "FARLINE HELD",
                "FARLINE KEY",
                "FARLINE LIMIT",
                "FARLINE LIVELIMIT",
                omission::FEATURE,
                "FARLINE ORDER",
                told_path::FEATURE,
                "FARLINE RATE",
            ]
            .map(str::to_owned)
            .to_vec(),
            [tree::BACKUP_FEATURE, tree::CRC64_FEATURE, tree::LANDING_FEATURE, tree::LEAVE_FEATURE]
                .map(str::to_owned)
                .to_vec(),
            [tree::ATTRIBUTES_FEATURE, tree::BLOCK_FEATURE, tree::UNLANDED_FEATURE]
                .map(str::to_owned)
                .to_vec(),
            kernel_id().map(|id| format!("FARLINE HOST {id}")).into_iter().collect(),
            shared
                .config
                .third_party
                .then(|| "FARLINE THIRDPARTY".to_owned())
                .into_iter()
                .collect(),
            arrival
                .certificate
                .iter()
                .map(|certificate| format!("FARLINE TLS {}", certificate.fingerprint))
                .collect(),
            arrival
                .over_ssh
                .then(|| format!("FARLINE ADDRESS {}", arrival.local.ip()))
                .into_iter()
                .collect(),
            shared
                .wide
                .map(|len| format!("{} {}", data_listener::HELD_FEATURE, len.0))
                .into_iter()
                .collect(),
            shared.config.allow_profile.and_then(profile::feature).into_iter().collect(),
            shared.config.allow_line.and_then(line::feature).into_iter().collect(),
            driver_features(&shared.drivers),
            stores::features(&shared.stores),
        ]
        .concat(),
        checksums: checksum::offered(),
        passive_retrieve: true,
        options_at_once: vec!["limit".to_owned()],
        tls: arrival.certificate.is_some() && !is_secure,
        gssapi: shared.gsi.is_some() && !is_secure,
        secure: is_secure,
        login_within: shared.config.limits.login_timeout.into(),
        home: shared.home.clone(),
        modules: [TREE_MODULE].iter().chain(profile::MODULES).map(ToString::to_string).collect(),
        net_stacks: shared.drivers.listening().map(|driver| driver.name.to_owned()).collect(),
        ..ServerConfig::default()
    }
}

/// What FEAT lists of the drivers that a client may choose.
fn driver_features(drivers: &Registry) -> Vec<String> {
    drivers
        .listening()
        .flat_map(|driver| driver.features.iter().map(|feature| format!("FARLINE {feature}")))
        .collect()
}

/// What one ask needs on its thread.
struct Job {
    shared: Arc<Shared>,
    data: Arc<Mutex<DataPlane>>,
    cancel: Cancel,
}

/// Does `work` on a session's data as the owner of its files.
fn as_owner(data: &Mutex<DataPlane>, work: impl FnOnce(&mut DataPlane)) {
    let mut data = lock(data);
    // What is put away is put away by whom the node runs as, where it cannot be the owner any more.
    let _guard = data.account().enter();
    work(&mut data);
}

impl Job {
    fn answer(self, id: u64, ask: Ask, answers: mpsc::UnboundedSender<(u64, Answer)>) {
        // The session may be gone by then, and nobody waits.
        let tell = Arc::new(move |answer: Answer| drop(answers.send((id, answer))));
        let account = lock(&self.data).account().clone();
        let _as_owner = match account.enter() {
            Ok(guard) => guard,
            Err(error) => return tell(Answer::Failed(error)),
        };
        let reporter = || Reporter::new(tell.clone(), Arc::clone(&self.shared.ticker));
        let answer = match ask {
            Ask::Transfer(request) => {
                let mut data = lock(&self.data);
                data.transfer(&request, &self.cancel, &reporter())
                    .map(|bytes| Answer::Finished { bytes })
            }
            // It needs no data connection, and whoever clears those away need not wait for it.
            Ask::Checksum { algorithm, offset, length, markers, path } => {
                let wanted = WantedChecksum { algorithm, offset, length, markers, path };
                checksum::compute(&account.access, &wanted, &self.cancel, &reporter())
                    .map(Answer::Digest)
            }
            other => self.quick(other),
        };
        tell(answer.unwrap_or_else(Answer::Failed));
    }

    fn quick(&self, ask: Ask) -> Result<Answer, Error> {
        let done = |()| Answer::Done;
        let mut data = lock(&self.data);
        let access = data.account().access.clone();
        let files = Files::new(&access);
        match ask {
            Ask::Act { addresses } => data.act(addresses).map(done),
            Ask::Authenticate { how } => data.authenticate(how).map(done),
            Ask::List { path } => files.list(&path).map(Answer::Entries),
            Ask::Login { user, password } => {
                data.log_in(&user, &password)?;
                Ok(Answer::LoggedIn(data.account().access.rights()))
            }
            Ask::MakeDirectory { path } => {
                let share = data.account().take(0, 1, &self.shared)?;
                files.make_directory(&path)?;
                share.inspect(QuotaShare::keep_all);
                Ok(Answer::Done)
            }
            Ask::MakeLink { target, path } => {
                let share = data.account().take(0, 1, &self.shared)?;
                files.make_link(&target, &path)?;
                share.inspect(QuotaShare::keep_all);
                Ok(Answer::Done)
            }
            Ask::NetStack { name } => data.choose_driver(&name).map(done),
            Ask::Passive { family, .. } => {
                data.passive(family).map(|address| Answer::Passive(vec![address]))
            }
            Ask::Protect { private } => data.protect(private).map(done),
            Ask::Remove { path, directory: true } => files.remove_directory(&path).map(done),
            Ask::Remove { path, directory: false } => files.remove_file(&path).map(done),
            Ask::Rename { from, to } => files.rename(&from, &to).map(done),
            Ask::SetMode { mode, path } => files.set_mode(&path, mode).map(done),
            Ask::SetModified { time, path } => files.set_modified(&path, time).map(done),
            Ask::SetOption { name, value } if self.shared.drivers.find(&name).is_some() => {
                data.take_channel(&name, &value).map(Answer::Value)
            }
            Ask::SetOption { name, value } if name == "path" => {
                data.tell_path(&value).map(Answer::Value)
            }
            Ask::SetOption { name, value } if name == "line" => {
                data.grant_line(&value).map(Answer::Value)
            }
            Ask::SetOption { name, value } => data.set_option(&name, &value).map(done),
            Ask::Stat { path } => files.stat(&path).map(|entry| Answer::Entry(Box::new(entry))),
            _ => Err(Error::new(Fault::Bug, ErrorCode::Unsupported, "this node does not do that")),
        }
    }
}
