//! A client of a calendar: requests and replies over TLS 1.3, and the stream of events.

use super::clock::local;
use super::wire::{ProblemKind, RefusalDocument, ReservationDocument, ReservationsDocument};
use crate::channels::trust::{self, Trust};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting, Span, escaped};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// The port where a URL names none.
const PORT: u16 = 2812;
/// How long a connection may take, and a reply, where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest reply that is read.
const LARGEST: usize = 64 << 20;

/// Where a calendar is, whom to take for it, and who asks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CalendarAddress {
    /// `https://HOST[:PORT]`.
    pub url: String,
    /// Whom to take for the calendar.
    pub trust: Trust,
    /// The token.
    pub token: Option<String>,
    /// A certificate and its key, in PEM, instead of a token.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl CalendarAddress {
    /// The calendar at `url`, `https://HOST[:PORT]`, which an authority of this system vouches for.
    pub fn new(url: impl Into<String>) -> CalendarAddress {
        CalendarAddress { url: url.into(), trust: Trust::default(), token: None, certificate: None }
    }
}

/// A client with one connection, made when it is needed.
pub struct CalendarClient {
    runtime: Runtime,
    address: CalendarAddress,
    host: String,
    port: u16,
    tls: TlsConnector,
    open: Option<SendRequest<Full<Bytes>>>,
    timeout: Duration,
}

impl std::fmt::Debug for CalendarClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CalendarClient({}:{})", self.host, self.port)
    }
}

fn here(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(Fault::Here, code, message)
}

fn host_and_port(url: &str) -> Result<(String, u16), Error> {
    let wrong = || {
        Error::new(Fault::You, ErrorCode::BadUrl, format!("`{url}` is no calendar's URL"))
            .hint("such as https://calendar.example.org:2812; nothing else is secure")
    };
    let rest = url.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        // A colon within brackets is of an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (rest, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.contains(['/', '@', '?', '#']) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

/// A client's TLS.
fn tls(address: &CalendarAddress) -> Result<TlsConnector, Error> {
    let (config, _) = trust::client(&address.trust, None)?;
    let mut config = rustls::ClientConfig::clone(&config);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if let Some((certificate, key)) = &address.certificate {
        let wrong = |path: &PathBuf, error: &dyn std::fmt::Display| {
            let message = format!("{}: {error}", path.display());
            Error::new(Fault::You, ErrorCode::BadCertificate, message)
        };
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| wrong(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let certified =
            CertifiedKey::from_der(chain, secret, &rustls::crypto::aws_lc_rs::default_provider());
        let certified = certified.map_err(|error| wrong(key, &error))?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    }
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What a request says besides its path.
#[derive(Clone, Debug, Default)]
struct Extra<'a> {
    key: Option<&'a str>,
    version: Option<u64>,
}

impl CalendarClient {
    /// A client of the calendar at `address`.
    ///
    /// # Errors
    /// A URL, certificate or authority that makes no sense.
    pub fn new(address: CalendarAddress) -> Result<CalendarClient, Error> {
        let (host, port) = host_and_port(&address.url)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| here(ErrorCode::NoRuntime, error.to_string()))?;
        let tls = tls(&address)?;
        Ok(CalendarClient { runtime, address, host, port, tls, open: None, timeout: TIMEOUT })
    }

    /// Waits so long for a connection, and for a reply; 30 s when not said.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// When the calendar cannot be reached or refuses.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Error> {
        self.asked(Method::GET, path, None::<&()>, &Extra::default())
    }

    /// Every reservation that is not over and that the caller may see.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn reservations(&mut self) -> Result<Vec<ReservationDocument>, Error> {
        let mut all = Vec::new();
        let mut path = "/v1/reservations".to_owned();
        loop {
            let page: ReservationsDocument = self.get(&path)?;
            all.extend(page.reservations);
            match page.next {
                Some(next) => path = format!("/v1/reservations?after={next}"),
                None => return Ok(all),
            }
        }
    }

    /// Posts `body`; with a `key` the calendar does the same request once, however often it comes,
    /// so a connection that breaks is tried again.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
        key: Option<&str>,
    ) -> Result<T, Error> {
        self.asked(Method::POST, path, Some(body), &Extra { key, version: None })
    }

    /// Changes what stands at `path`, if it has still that version.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn patch<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
        version: Option<u64>,
    ) -> Result<T, Error> {
        self.asked(Method::PATCH, path, Some(body), &Extra { key: None, version })
    }

    /// Puts `body`, of which no reply is wanted.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn put(&mut self, path: &str, body: &impl Serialize) -> Result<(), Error> {
        self.asked::<Option<()>>(Method::PUT, path, Some(body), &Extra::default()).map(drop)
    }

    /// Every event after the one numbered `after`, or from now on.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn events(mut self, after: Option<u64>) -> Result<CalendarEvents, Error> {
        let path =
            after.map_or("/v1/events".to_owned(), |after| format!("/v1/events?after={after}"));
        let request = self.request(&Method::GET, &path, Bytes::new(), &Extra::default())?;
        let runtime = &self.runtime;
        let response = runtime.block_on(async {
            let mut sender = connect(&self.host, self.port, &self.tls, self.timeout).await?;
            let response = sender.send_request(request).await;
            response.map_err(|error| self.broken(&error)).map(|response| (response, sender))
        })?;
        let (response, sender) = response;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let body = self.runtime.block_on(read(response)).map_err(|why| self.odd(&why))?;
            return Err(self.refused(status, &body));
        }
        self.open = Some(sender);
        Ok(CalendarEvents { client: self, body: response.into_body(), pending: Vec::new() })
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> Error {
        let message = format!("the calendar {}:{}: {error}", self.host, self.port);
        Error::new(Fault::Between, ErrorCode::Unreachable, message)
    }

    fn odd(&self, why: &str) -> Error {
        let message = format!("the calendar {}:{} {why}", self.host, self.port);
        Error::new(Fault::There, ErrorCode::CalendarAnswer, message)
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
        extra: &Extra<'_>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::ACCEPT, "application/json, text/event-stream");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.address.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = extra.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(version) = extra.version {
            request = request.header(header::IF_MATCH, format!("\"{version}\""));
        }
        request.body(Full::new(body)).map_err(|error| {
            let message = format!("a request to the calendar: {error}");
            Error::new(Fault::You, ErrorCode::CalendarRequest, message)
        })
    }

    fn asked<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        extra: &Extra<'_>,
    ) -> Result<T, Error> {
        let body = match body {
            None => Bytes::new(),
            Some(body) => serde_json::to_vec(body).map(Bytes::from).map_err(|error| {
                Error::new(Fault::Bug, ErrorCode::CalendarAnswer, error.to_string())
            })?,
        };
        // A connection that was open may have been closed by the other end meanwhile: what can be
        // asked twice is asked again over a new one.
        let repeatable = method == Method::GET || method == Method::PUT || extra.key.is_some();
        let was_open = self.open.is_some();
        let mut outcome = self.once(&method, path, body.clone(), extra);
        if was_open && repeatable && outcome.as_ref().is_err_and(|e| e.fault == Fault::Between) {
            outcome = self.once(&method, path, body, extra);
        }
        let (status, reply) = outcome?;
        if !status.is_success() {
            return Err(self.refused(status, &reply));
        }
        let reply: &[u8] = if reply.is_empty() { b"null" } else { &reply };
        serde_json::from_slice(reply)
            .map_err(|error| self.odd(&format!("said what cannot be read: {error}")))
    }

    fn once(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
        extra: &Extra<'_>,
    ) -> Result<(StatusCode, Bytes), Error> {
        let request = self.request(method, path, body, extra)?;
        let open = self.open.take().filter(|sender| !sender.is_closed());
        let asked = self.runtime.block_on(async {
            let mut sender = match open {
                Some(sender) => sender,
                None => connect(&self.host, self.port, &self.tls, self.timeout).await?,
            };
            let reply = async {
                let ready = sender.ready().await;
                ready.map_err(|error| self.broken(&error))?;
                let response = sender.send_request(request).await;
                let response = response.map_err(|error| self.broken(&error))?;
                let status = response.status();
                let body = read(response).await.map_err(|why| self.odd(&why))?;
                Ok((status, body))
            };
            let reply = tokio::time::timeout(self.timeout, reply).await;
            let timeout = Span::from(self.timeout);
            let silent = |_| self.broken(&format!("no reply within {timeout}"));
            reply.map_err(silent)?.map(|reply: (StatusCode, Bytes)| (reply, sender))
        });
        let (reply, sender) = asked?;
        self.open = Some(sender);
        Ok(reply)
    }

    /// The error that a refusal is.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        let Ok(refusal) = serde_json::from_slice::<RefusalDocument>(body) else {
            return self.odd(&format!("replied {status}"));
        };
        let kind = ProblemKind::of(&refusal.kind);
        let (fault, code) = match status.as_u16() {
            401 | 403 => (Fault::Refused, ErrorCode::CalendarDenied),
            409 if kind == Some(ProblemKind::WrongState) => {
                (Fault::You, ErrorCode::CalendarRequest)
            }
            409 => (Fault::Refused, ErrorCode::CalendarRefused),
            503 if kind == Some(ProblemKind::Busy) => (Fault::Refused, ErrorCode::Busy),
            500.. => (Fault::There, ErrorCode::CalendarStore),
            _ => (Fault::You, ErrorCode::CalendarRequest),
        };
        let mut message = refusal.detail.clone();
        for (number, obstacle) in refusal.obstacles.iter().take(4).enumerate() {
            let free = Rate::from_bps(obstacle.free_bps);
            message += if number == 0 { ": " } else { ", " };
            message +=
                &format!("{} has {free} free from {}", obstacle.link, local(&obstacle.start));
        }
        let error = Error::new(fault, code, escaped(&message).into_owned());
        match status.as_u16() {
            401 => error.hint(format!("name the token's file with {}", Setting::TokenFile)),
            _ => error.caused_by(Refused(Box::new(refusal))),
        }
    }
}

/// The refusal beneath an error of a calendar's client.
#[derive(Debug)]
pub struct Refused(pub Box<RefusalDocument>);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl std::error::Error for Refused {}

async fn connect(
    host: &str,
    port: u16,
    tls: &TlsConnector,
    timeout: Duration,
) -> Result<SendRequest<Full<Bytes>>, Error> {
    let unreachable = |error: &dyn std::fmt::Display| {
        let message = format!("cannot reach the calendar {host}:{port}: {error}");
        Error::new(Fault::Between, ErrorCode::Unreachable, message)
            .hint("does `farline calendar serve` run there?")
    };
    let connect = async {
        let stream = TcpStream::connect((host, port)).await.map_err(|error| unreachable(&error))?;
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| unreachable(&error))?;
        let stream = tls.connect(name, stream).await.map_err(|error| {
            let untrusted = matches!(
                error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()),
                Some(rustls::Error::InvalidCertificate(_))
            );
            if untrusted {
                let message =
                    format!("the certificate of the calendar {host}:{port} is not trusted");
                return Error::new(Fault::Refused, ErrorCode::TlsUntrusted, message).hint(format!(
                    "name its fingerprint with {}, or its authority with {}",
                    Setting::Pin,
                    Setting::Ca
                ));
            }
            let message = format!("TLS with the calendar {host}:{port}: {error}");
            Error::new(Fault::There, ErrorCode::TlsFailed, message)
        })?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| unreachable(&error))?;
        tokio::spawn(connection);
        Ok(sender)
    };
    let late = |_| unreachable(&format!("no connection within {}", Span::from(timeout)));
    tokio::time::timeout(timeout, connect).await.map_err(late)?
}

async fn read(response: Response<Incoming>) -> Result<Bytes, String> {
    let limited = http_body_util::Limited::new(response.into_body(), LARGEST);
    let body = limited.collect().await.map_err(|error| format!("broke off its reply: {error}"))?;
    Ok(body.to_bytes())
}

/// The events of a calendar, as they come.
#[derive(Debug)]
pub struct CalendarEvents {
    client: CalendarClient,
    body: Incoming,
    pending: Vec<u8>,
}

impl CalendarEvents {
    /// Waits for the next event, at most for `timeout`.
    ///
    /// # Errors
    /// When the stream breaks, or brings what is no event.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<super::wire::EventDocument>, Error> {
        loop {
            if let Some(end) = self.pending.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.pending.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&block);
                let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: ")) else {
                    continue;
                };
                return serde_json::from_str(data)
                    .map(Some)
                    .map_err(|error| self.client.odd(&format!("sent an odd event: {error}")));
            }
            let body = &mut self.body;
            let next = async { tokio::time::timeout(timeout, body.frame()).await };
            match self.client.runtime.block_on(next) {
                Err(_) => return Ok(None),
                Ok(None) => return Err(self.client.broken(&"it ended the stream of events")),
                Ok(Some(Err(error))) => return Err(self.client.broken(&error)),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_a_port() {
        let read = |url| host_and_port(url).map_err(|error| error.code);
        assert_eq!(read("https://a.example.org"), Ok(("a.example.org".to_owned(), 2812)));
        assert_eq!(read("https://127.0.0.1:99/"), Ok(("127.0.0.1".to_owned(), 99)));
        assert_eq!(read("https://[::1]:99"), Ok(("::1".to_owned(), 99)));
        assert_eq!(read("https://[::1]"), Ok(("::1".to_owned(), 2812)));
        for wrong in ["http://a", "a", "https://", "https://a:b", "https://u@a", "https://a/b"] {
            assert_eq!(read(wrong), Err(ErrorCode::BadUrl), "{wrong}");
        }
    }
}
