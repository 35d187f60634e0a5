//! Connections: TLS handshakes next to each other, bounded in number and in time.

use super::Shared;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Connections at a time; more wait in the kernel.
const CONNECTIONS: usize = 1024;
/// How long a handshake, or the head of a request, may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests have once the service ends.
const DRAIN: Duration = Duration::from_secs(3);

/// Serves `router` on `listener` until `stop` ends.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    shared: &Arc<Shared>,
    stop: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let (ending, ended) = watch::channel(false);
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let (Ok(permit), Ok((stream, _))) = (permit, accepted) else {
            // No descriptor is left, or the peer has gone already.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (acceptor, router, ended) = (acceptor.clone(), router.clone(), ended.clone());
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            connection(stream, acceptor, router, shared, ended).await;
            drop(permit);
        });
    }
    let _ = ending.send(true);
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(DRAIN, room.acquire_many(all)).await;
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    shared: Arc<Shared>,
    mut ended: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let shaken = tokio::time::timeout(TIMEOUT, acceptor.accept(stream)).await;
    // Who breaks TLS, or takes too long, is heard no further.
    let Ok(Ok(stream)) = shaken else { return };
    let shown = stream.get_ref().1.peer_certificates();
    let router = match shown.map(<[_]>::to_vec) {
        None => router,
        Some(shown) => {
            let named = Arc::clone(&shared.named);
            let looked = tokio::task::spawn_blocking(move || named.shown(&shown)).await;
            match looked.ok().flatten() {
                Some(certificate) => router.layer(axum::Extension(certificate)),
                None => router,
            }
        }
    };
    drop(shared);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        _ = ended.wait_for(|ended| *ended) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
