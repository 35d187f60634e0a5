//! `farline calendar token`: who may ask a calendar, and for what.

use super::LedgerArgs;
use crate::output::Output;
use crate::reserve::when;
use clap::{Subcommand, ValueEnum};
use farline::calendar::{CalendarRole, NewToken, make_token, timestamp, topology};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use serde_json::json;

/// Make, list and revoke tokens
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  farline calendar token add ada --project climate --endpoints oak-ridge,chicago \\
      --highest-rate 5G --state /var/lib/farline
  farline calendar token revoke ada --state /var/lib/farline")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Admin,
    User,
    Agent,
    Viewer,
}

#[derive(Subcommand)]
enum Action {
    /// Make a token, and print its secret, which is kept nowhere
    #[command(after_help = "\
Example:
  farline calendar token add ada --project climate --endpoints '*' --state DIR > ada.token")]
    Add {
        /// Who it is for
        #[arg(value_name = "WHO")]
        name: String,
        /// Whose quotas count
        #[arg(long, value_name = "NAME")]
        project: String,
        /// What it may: user books, viewer looks, agent makes circuits
        #[arg(long, value_enum, default_value = "user")]
        role: Role,
        /// Sites where its circuits may begin and end, with commas; * is all [default: none]
        #[arg(long, value_name = "SITES", value_delimiter = ',')]
        endpoints: Vec<String>,
        /// The highest rate of one reservation [default: any]
        #[arg(long, value_name = "RATE")]
        highest_rate: Option<Rate>,
        /// The most that one reservation may carry [default: any]
        #[arg(long, value_name = "SIZE")]
        highest_volume: Option<Bytes>,
        /// When its circuits may begin at the earliest [default: any]
        #[arg(long, value_name = "TIME")]
        not_before: Option<String>,
        /// When they have to end [default: any]
        #[arg(long, value_name = "TIME")]
        not_after: Option<String>,
        /// A client certificate that is as good, by its fingerprint [default: none]
        #[arg(long, value_name = "SHA256")]
        certificate: Option<String>,
        /// The network: usn, or a TOML file
        #[arg(long, value_name = "NAME|FILE", default_value = "usn")]
        network: String,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// List them, without their secrets
    #[command(after_help = "Example:\n  farline calendar token ls --state /var/lib/farline")]
    Ls {
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// Revoke one: it is let in no more within a second
    #[command(after_help = "Example:\n  farline calendar token revoke ada --state DIR")]
    Revoke {
        /// Whose
        name: String,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
}

pub(super) fn run(args: Args, output: &Output) -> Result<(), Error> {
    match args.action {
        Action::Add {
            name,
            project,
            role,
            endpoints,
            highest_rate,
            highest_volume,
            not_before,
            not_after,
            certificate,
            network,
            ledger,
        } => {
            let now = when::here();
            let time = |text: Option<String>| {
                text.map(|text| when::read(&text, &now).map(timestamp)).transpose()
            };
            let role = match role {
                Role::Admin => CalendarRole::Admin,
                Role::User => CalendarRole::User,
                Role::Agent => CalendarRole::Agent,
                Role::Viewer => CalendarRole::Viewer,
            };
            let token = NewToken {
                name,
                project,
                role,
                endpoints,
                highest_rate_bps: highest_rate.map(Rate::as_bps),
                highest_volume_bytes: highest_volume.map(|volume| volume.0),
                not_before: time(not_before)?,
                not_after: time(not_after)?,
                certificate,
            };
            let secret = make_token(&mut ledger.open()?, &token, &topology(&network)?)?;
            let document =
                json!({ "schema": "farline/token/1", "name": token.name, "secret": secret });
            output.result(&document, secret)
        }
        Action::Ls { ledger } => {
            let tokens: Vec<NewToken> =
                ledger.open()?.tokens()?.into_iter().map(|stored| stored.token).collect();
            let line = |token: &NewToken| {
                let role = format!("{:?}", token.role).to_lowercase();
                format!(
                    "{:<16} {:<12} {role:<7} {}",
                    token.name,
                    token.project,
                    token.endpoints.join(",")
                )
            };
            let text = tokens.iter().map(line).collect::<Vec<_>>().join("\n");
            let document = json!({ "schema": "farline/tokens/1", "tokens": tokens });
            output.result(&document, if text.is_empty() { "no tokens".to_owned() } else { text })
        }
        Action::Revoke { name, ledger } => {
            if !ledger.open()?.revoke_token(&name)? {
                let message = format!("there is no token called `{name}`");
                return Err(Error::new(Fault::You, ErrorCode::CalendarRequest, message));
            }
            let document = json!({ "schema": "farline/token-revoked/1", "name": name });
            output.result(&document, format!("{name} is let in no more"))
        }
    }
}
