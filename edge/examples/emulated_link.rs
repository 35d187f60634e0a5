//! Brings up an emulated path of 1,400 miles and pings across it: `cargo run --example emulated_link`.

use farline::core::units::Error;
use farline::link::{Link, Settings, Side};

fn main() -> Result<(), Error> {
    // The link's emulator is this program, started again.
    farline::agent::run();
    let mut settings = Settings::named("usn-1400")?;
    settings.name = format!("example-{}", std::process::id());
    let link = Link::up(&settings)?;
    let pinged = link
        .command(Side::A, "ping")
        .map(|mut command| command.args(["-c", "3", &link.info().address(Side::B)]).status());
    let delivered = link.stats().map(|stats| stats.a_to_b.model.delivered_frames);
    link.down()?;
    println!("ping ended with {:?}; {} frames went from a to b", pinged?, delivered?);
    Ok(())
}
