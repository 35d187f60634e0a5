//! Brings up an emulated path of 1,400 miles and pings across it: `cargo run --example
//! emulated_link`.

use farline::core::units::{Error, ErrorCode, Fault};
use farline::link::{Link, Settings, Side};
use std::process::Stdio;

fn main() -> Result<(), Error> {
    // The link's emulator is this program, started again.
    farline::agent::run();
    let mut settings = Settings::named("usn-1400")?;
    settings.name = format!("example-{}", std::process::id());
    let link = Link::up(&settings)?;
    let pinged = link.command(Side::A, "ping").map(|mut command| {
        let peer = link.info().address(Side::B);
        command.args(["-c", "3", &peer]).stdout(Stdio::null()).status()
    });
    let delivered = link.stats().map(|stats| stats.a_to_b.model.delivered_frames);
    link.down()?;
    let status = pinged?.map_err(|error| here(format!("running ping: {error}")))?;
    if !status.success() {
        return Err(here(format!("ping got no reply: {status}")));
    }
    println!("{} frames went from a to b", delivered?);
    Ok(())
}

fn here(message: String) -> Error {
    Error::new(Fault::Here, ErrorCode::Other("example-link"), message)
}
