//! Waiting for a signal that asks the command to end.

use tokio::signal::unix::{SignalKind, signal};

/// Ends when SIGINT or SIGTERM comes: what the command holds is then given back, as a default disposition would not.
pub(crate) async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
