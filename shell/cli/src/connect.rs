//! How nodes are reached, by flags and by the environment.

use farline::channels::trust::{ClientKey, Fingerprint, Trust};
use farline::client::{ConnectOptions, ControlTransport, Location, Remote};
use farline::identity::BEARER;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io::IsTerminal;
use std::path::PathBuf;

/// What the environment says: `FARLINE_SSH`, `GLOBUS_REMOTE_SSHFTP`, and who logs in.
pub(crate) fn usual() -> ConnectOptions {
    connect(None, Trust::default())
}

/// The same with flags, which win.
pub(crate) fn with(
    ssh: Option<String>,
    tls_ca: Option<PathBuf>,
    tls_pin: Option<Fingerprint>,
) -> ConnectOptions {
    let mut trust = Trust::default();
    (trust.authorities, trust.fingerprint) = (tls_ca, tls_pin);
    connect(ssh, trust)
}

fn connect(ssh: Option<String>, trust: Trust) -> ConnectOptions {
    let ssh = ssh.or_else(|| std::env::var("FARLINE_SSH").ok()).unwrap_or_default();
    let file = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    // One file may hold both.
    let mut connect = ConnectOptions::default();
    connect.trust = trust;
    connect.credentials.certificate = file("FARLINE_CERT").map(|certificate| {
        let key = file("FARLINE_KEY").unwrap_or_else(|| certificate.clone());
        ClientKey::new(certificate, key)
    });
    connect.credentials.password = std::env::var("FARLINE_PASSWORD").ok();
    // As `globus-url-copy` has it.
    connect.remote_sshftp =
        std::env::var("GLOBUS_REMOTE_SSHFTP").ok().filter(|program| !program.is_empty());
    connect.ssh = ssh.split_whitespace().map(str::to_owned).collect();
    connect
}

/// Users who log in without a password: who shows a token, and nobody in particular.
const PASSWORDLESS: [&str; 3] = [BEARER, "anonymous", "ftp"];

/// Asks the person at the terminal, if there is one, for the password of a user that a URL names
/// without one, where nothing else says who logs in.
///
/// # Errors
/// When there is no terminal, or it cannot be read: an empty password would only count as a wrong
/// one.
pub(crate) fn ask_for_password<'a>(
    connect: &mut ConnectOptions,
    places: impl IntoIterator<Item = &'a Location>,
) -> Result<(), Error> {
    let has_other =
        connect.credentials.password.is_some() || connect.credentials.certificate.is_some();
    if has_other {
        return Ok(());
    }
    let wants = |place: &&Location| match place {
        Location::Remote(Remote { user: Some(user), password: None, transport, .. }) => {
            !PASSWORDLESS.contains(&user.as_str())
                && matches!(transport, ControlTransport::Tls | ControlTransport::OnePort)
        }
        _ => false,
    };
    let Some(Location::Remote(remote)) = places.into_iter().find(wants) else { return Ok(()) };
    if !std::io::stdin().is_terminal() {
        let message =
            format!("{} has no password here, and no terminal asks for it", remote.place());
        return Err(Error::new(Fault::You, ErrorCode::LoginRefused, message)
            .hint("set FARLINE_PASSWORD, or show a certificate or a token"));
    }
    let prompt = format!("Password for {}: ", remote.place());
    let password = rpassword::prompt_password(prompt).map_err(|error| {
        let message = format!("the password cannot be read: {error}");
        Error::new(Fault::Here, ErrorCode::Terminal, message)
    })?;
    connect.credentials.password = Some(password);
    Ok(())
}
