//! One document by HTTPS, of bounded size: what issuers of tokens say of themselves.

use crate::channels::trust::ClientConfig;
use farline_core::units::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes as Chunk;
use hyper::client::conn::http1;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::fmt::Display;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The largest document that is read.
const LARGEST: Bytes = Bytes(256 << 10);

/// What came.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: Vec<u8>,
    /// Seconds for which it may be kept, where the server says so.
    pub(super) max_age: Option<u64>,
}

/// Fetches `url` from whom `trust` takes for its host. Nobody is followed elsewhere.
///
/// # Errors
/// In words: what stood in the way.
pub(super) async fn fetch(url: &str, trust: &Arc<ClientConfig>) -> Result<Reply, String> {
    let wrong = |error: &dyn Display| format!("{url}: {error}");
    let uri: Uri = url.parse().map_err(|error| wrong(&error))?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    let (Some("https"), Some(authority)) = (uri.scheme_str(), authority) else {
        return Err(wrong(&"this is no URL of HTTPS"));
    };
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let port = authority.port_u16().unwrap_or(443);
    let stream = TcpStream::connect((&*host, port)).await.map_err(|error| wrong(&error))?;
    let name = ServerName::try_from(host).map_err(|error| wrong(&error))?;
    let connector = TlsConnector::from(Arc::clone(trust));
    let stream = connector.connect(name, stream).await.map_err(|error| wrong(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| wrong(&error))?;
    // What ends it is told to whoever waits for the reply.
    let connection = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority.as_str())
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("farline/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Chunk>::new())
        .map_err(|error| wrong(&error))?;
    let come = async {
        let response = sender.send_request(request).await.map_err(|error| wrong(&error))?;
        if response.status() != hyper::StatusCode::OK {
            return Err(wrong(&format!("the server said {}", response.status())));
        }
        let max_age = response.headers().get_all(header::CACHE_CONTROL).iter();
        let max_age = max_age.filter_map(|value| max_age_of(value.to_str().ok()?)).min();
        let limit = usize::try_from(LARGEST.0).unwrap_or(usize::MAX);
        let body = Limited::new(response.into_body(), limit).collect().await.map_err(|error| {
            match error.is::<http_body_util::LengthLimitError>() {
                true => wrong(&format!("more than {LARGEST}")),
                false => wrong(&error),
            }
        })?;
        Ok(Reply { body: body.to_bytes().to_vec(), max_age })
    };
    let reply = come.await;
    connection.abort();
    reply
}

/// The seconds of `max-age`, none where it may not be kept at all.
pub(super) fn max_age_of(control: &str) -> Option<u64> {
    let mut directives = control.split(',').map(str::trim);
    let is_not_kept = |directive: &str| {
        ["no-store", "no-cache"].iter().any(|not| directive.eq_ignore_ascii_case(not))
    };
    if directives.clone().any(is_not_kept) {
        return Some(0);
    }
    directives.find_map(|directive| {
        let (name, seconds) = directive.split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then(|| seconds.trim_matches('"').parse().ok())?
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::channels::trust::ServerConfig;
    use crate::sys::lock::lock;
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::path::PathBuf;
    use std::sync::Mutex;

    /// Headers and body by path, and how often each was asked for.
    #[derive(Default)]
    struct Served {
        documents: HashMap<String, (String, String)>,
        asked: HashMap<String, u32>,
    }

    /// A server of HTTPS for tests, of which `authority` is the one that vouches for it.
    pub(in crate::identity) struct Server {
        address: SocketAddr,
        pub(in crate::identity) authority: PathBuf,
        served: Arc<Mutex<Served>>,
        _folder: tempfile::TempDir,
    }

    impl Server {
        pub(in crate::identity) fn start() -> Server {
            let folder = tempfile::tempdir().expect("a folder");
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
            let made = made.expect("a certificate");
            let authority = folder.path().join("ca.pem");
            std::fs::write(&authority, made.cert.pem()).expect("written");
            let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
            let config = ServerConfig::builder_with_provider(crate::channels::trust::provider())
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key.expect("a key"));
            let config = Arc::new(config.expect("a certificate"));
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let served = Arc::new(Mutex::new(Served::default()));
            let own = Arc::clone(&served);
            // Ends with the process of the tests.
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let connection = rustls::ServerConnection::new(Arc::clone(&config));
                    let tls = rustls::StreamOwned::new(connection.expect("TLS"), stream);
                    // Whoever does not take the certificate goes away.
                    let _ = reply(tls, &own);
                }
            });
            Server { address, authority, served, _folder: folder }
        }

        pub(in crate::identity) fn url(&self, path: &str) -> String {
            format!("https://localhost:{}{path}", self.address.port())
        }

        pub(in crate::identity) fn put(&self, path: &str, headers: &str, body: &str) {
            let document = (headers.to_owned(), body.to_owned());
            lock(&self.served).documents.insert(path.to_owned(), document);
        }

        pub(in crate::identity) fn remove(&self, path: &str) {
            lock(&self.served).documents.remove(path);
        }

        /// How often a path was asked for.
        pub(in crate::identity) fn asked(&self, path: &str) -> u32 {
            lock(&self.served).asked.get(path).copied().unwrap_or(0)
        }
    }

    fn reply<S: std::io::Read + Write>(stream: S, served: &Mutex<Served>) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut request = String::new();
        stream.read_line(&mut request)?;
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut line = String::new();
        while stream.read_line(&mut line)? > 2 {
            line.clear();
        }
        let mut served = lock(served);
        *served.asked.entry(path.clone()).or_default() += 1;
        let text = match served.documents.get(&path) {
            Some((headers, body)) => {
                format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
            }
            None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        drop(served);
        stream.get_mut().write_all(text.as_bytes())?;
        stream.get_mut().flush()
    }

    #[test]
    fn how_long_a_document_is_good_for_is_read_from_its_header() {
        for (control, seconds) in [
            ("max-age=300", Some(300)),
            ("public, Max-Age=\"60\" , must-revalidate", Some(60)),
            ("no-store, max-age=60", Some(0)),
            ("no-cache", Some(0)),
            ("private", None),
            ("max-age=soon", None),
            ("s-maxage=5", None),
        ] {
            assert_eq!(max_age_of(control), seconds, "{control}");
        }
    }
}
