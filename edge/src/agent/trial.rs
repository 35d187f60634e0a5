//! The two ends of a trial copy: what `farline profile` measures of a store, a staging pool and a
//! driver, with the mover itself.

use crate::channels::Registry;
use crate::channels::trust::Trust;
use crate::client::{self, ConnectOptions, Location, Options, StoredProfiles, Verify};
use crate::node::{Anonymous, ConfigFile, Node};
use crate::prober::{Trial, TrialCopy, TrialNode};
use crate::reexec::say;
use farline_core::transfer::UserOverrides;
use farline_core::units::{Error, ErrorCode, Fault};

/// Plays one end; says on standard output what came of it.
pub(super) fn play(role: Trial) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot start: {error}"))
    })?;
    match role {
        Trial::Copy(role) => runtime.block_on(copy(*role)),
        Trial::Node(role) => runtime.block_on(node(role)),
    }
}

async fn copy(role: TrialCopy) -> Result<(), Error> {
    let channel = role.channel.map(|name| Registry::builtin().stack(&name)).transpose()?;
    let options = Options {
        channel,
        limit: role.limit,
        overrides: UserOverrides {
            streams: Some(role.streams as usize),
            congestion: role.congestion,
            staging: Some(role.staging),
            prior: None,
        },
        // A measurement does as its cell says.
        stored_profiles: StoredProfiles::Ignore,
        connect: ConnectOptions {
            trust: Trust {
                fingerprint: role
                    .fingerprint
                    .map(|text| text.parse())
                    .transpose()
                    .map_err(|why: String| Error::new(Fault::Bug, ErrorCode::AgentRole, why))?,
                ..Trust::default()
            },
            ..ConnectOptions::default()
        },
        verify: Verify::None,
        buffer: role.window,
        trial: client::Trial {
            sync: None,
            stall: role.stall,
            read: role.read,
            write: None,
            in_turns: role.in_turns,
        },
        ..Options::default()
    };
    let (from, to) = (Location::parse(&role.source)?, Location::parse(role.target.as_ref())?);
    say(&client::copy(&[from], &to, &options, &mut |_| {}).await?)
}

async fn node(role: TrialNode) -> Result<(), Error> {
    let config = ConfigFile {
        listen: Some(role.listen),
        root: Some(role.root),
        anonymous: Some(Anonymous::Write),
        allow_null: Some(true),
        tls: Some(role.tls),
        ..ConfigFile::default()
    };
    let node = Node::bind(config.build()?).await?;
    let fingerprint = node.fingerprint().map(|fingerprint| fingerprint.to_string());
    say(&serde_json::json!({ "address": node.address(), "fingerprint": fingerprint }))?;
    node.run().await
}
