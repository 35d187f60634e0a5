//! `farline calendar serve`.

use crate::interrupt::Signals;
use crate::numbers;
use crate::output::Output;
use farline::calendar::{CalendarConfigFile, CalendarTrouble, Service};
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Serve a calendar over HTTPS
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  farline calendar serve --state /var/lib/farline --network usn
  farline calendar serve /etc/farline-calendar.toml

The first start makes a key, a certificate and a token for everything in the
state folder. Nothing is served without TLS 1.3, and nothing to who is unknown.")]
pub(crate) struct Args {
    /// Configuration file in TOML, with these flags' names as keys; flags win [default: none]
    #[arg(value_name = "CONFIG")]
    file: Option<PathBuf>,
    /// Where to listen; port 0: any [default: 127.0.0.1:2812]
    #[arg(long, value_name = "ADDR:PORT", value_parser = numbers::address)]
    listen: Option<SocketAddr>,
    /// Folder of the database, the key and the first token [default: the file's]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Its database: postgres://USER@HOST/NAME [default: SQLite in that folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The network: usn, or a TOML file [default: usn]
    #[arg(long, value_name = "NAME|FILE")]
    network: Option<String>,
    /// Certificate chain, in PEM [default: one made in the state folder]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM [default: one made in the state folder]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// What is printed when it listens.
#[derive(Serialize)]
struct Listening {
    schema: &'static str,
    url: String,
    fingerprint: String,
    network: String,
    standing: usize,
    first_token: Option<PathBuf>,
}

pub(super) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let mut file = match &args.file {
        Some(path) => CalendarConfigFile::read(path)?,
        None => CalendarConfigFile::default(),
    };
    file.listen = args.listen.or(file.listen);
    file.state = args.state.or(file.state);
    file.database = args.database.map(|url| url.parse()).transpose()?.or(file.database);
    file.network = args.network.or(file.network);
    file.tls_cert = args.tls_cert.or(file.tls_cert);
    file.tls_key = args.tls_key.or(file.tls_key);
    let config = file.build()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| {
        Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot start: {error}"))
    })?;
    let network = config.topology.name.clone();
    runtime.block_on(async {
        let service = Service::bind(config).await?;
        let listening = Listening {
            schema: "farline/calendar-serve/1",
            url: format!("https://{}", service.address()),
            fingerprint: service.fingerprint().to_string(),
            network,
            standing: service.standing(),
            first_token: service.first_token().map(PathBuf::from),
        };
        let mut text = format!(
            "farline: the calendar of {} is at {}, its certificate is {}; {} reservations stand",
            listening.network, listening.url, listening.fingerprint, listening.standing
        );
        if let Some(path) = &listening.first_token {
            text += &format!("\na token for everything is in {}", path.display());
        }
        output.result(&listening, text)?;
        let mut trouble = service.trouble();
        let telling = async {
            while trouble.changed().await.is_ok() {
                let now = trouble.borrow_and_update().clone();
                // Who reads that no more is no reason to end.
                let _ = print_trouble(now.as_ref(), output);
            }
            std::future::pending().await
        };
        let mut signals = Signals::listen()?;
        let serving = service.run(async move {
            let _ = signals.next().await;
        });
        tokio::select! {
            ended = serving => ended?,
            () = telling => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Says what is wrong with the calendar, or that nothing is any more.
fn print_trouble(trouble: Option<&CalendarTrouble>, output: &Output) -> Result<(), Error> {
    let schema = "farline/calendar-trouble/1";
    let (document, text) = match trouble {
        Some(CalendarTrouble::Database(error)) => {
            let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let text = format!("nothing is booked or changed while this is so: {error}{hint}");
            (json!({ "schema": schema, "trouble": "database", "error": error }), text)
        }
        Some(CalendarTrouble::ClockAhead(by)) => {
            let text = format!(
                "this host's clock was set forward by {by}: nothing ends by it for a minute, in \
                 case that is a mistake"
            );
            (json!({ "schema": schema, "trouble": "clock", "ahead_s": by.as_secs_f64() }), text)
        }
        None => (json!({ "schema": schema, "trouble": null }), "all is well again".to_owned()),
        // What a later library may tell besides.
        Some(_) => return Ok(()),
    };
    output.result(&document, format!("farline: {text}"))
}
