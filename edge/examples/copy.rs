//! Copies a file or a tree and shows how it goes: `cargo run --example copy -- SRC DST`.

use farline::core::units::{Error, ErrorCode, Fault};
use std::time::Duration;

fn main() -> Result<(), Error> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [source, destination] = &arguments[..] else {
        return Err(Error::new(Fault::You, ErrorCode::Usage, "give a source and a destination"));
    };
    let copying = farline::Client::new().copy(source, destination)?.recursive(true).start()?;
    let progress = copying.watch();
    let shown = std::thread::spawn(move || {
        // The channel closes when the copy is over.
        while progress.has_changed().is_ok() {
            println!("{} have arrived", progress.borrow().bytes);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let outcome = copying.wait()?;
    let _ = shown.join();
    for failure in &outcome.failures {
        println!("not copied: {}: {}", failure.path, failure.error);
    }
    println!("{} files, verified: {}", outcome.files, outcome.verified);
    for reason in &outcome.reasons {
        println!("because: {reason}");
    }
    // What could not be copied of a tree is an error of this program's too.
    outcome.whole().map(drop)
}
