//! An issuer's public keys: of a file, or of the issuer itself, which is asked where they are
//! (OpenID Connect Discovery 1.0, section 4) and by whose word they are kept.

use super::https::{Reply, fetch};
use super::issuer_keys::IssuerKeys;
use super::{Identities, KeySource};
use crate::channels::trust::{self, ClientConfig, Trust};
use crate::sys::lock::lock;
use farline_core::units::{Error, Span};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long keys are taken for good without asking again, whatever the issuer says.
const CACHED_FOR: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(5 * 60)..=Duration::from_secs(24 * 60 * 60);
/// The same where it says nothing.
const USUALLY_KEPT: Duration = Duration::from_secs(60 * 60);
/// Between two fetches, whoever asks for what.
const EVERY: Duration = Duration::from_secs(60);
/// How long both documents may take together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Logins that wait for keys at once; further ones are refused, and no thread waits for them.
const MOST_WAITING: usize = 8;

/// The keys of all issuers.
#[derive(Debug, Default)]
pub(crate) struct KeySets(Vec<(String, KeySet)>);

#[derive(Debug)]
enum KeySet {
    /// Read at each login.
    File(PathBuf),
    Discovered(Arc<Discovery>),
}

/// One issuer that says where its keys are.
#[derive(Debug)]
struct Discovery {
    url: String,
    trust: Arc<ClientConfig>,
    state: Mutex<State>,
    fetched: Condvar,
}

#[derive(Debug, Default)]
struct State {
    keys: Option<CachedKeys>,
    /// When the last fetch began.
    tried: Option<Instant>,
    is_running: bool,
    waiting: usize,
    /// Why the last one brought nothing.
    failure: String,
}

#[derive(Clone, Debug)]
struct CachedKeys {
    keys: Arc<str>,
    at: Instant,
    good_for: Duration,
}

impl KeySets {
    /// Those of the issuers in `identities`; discovered ones are asked for from now on.
    ///
    /// # Errors
    /// When authorities cannot be read.
    pub(crate) fn new(identities: &Identities) -> Result<KeySets, Error> {
        let sets = identities.issuers.iter().map(|issuer| {
            let url = issuer.issuer.url.clone();
            let set = match &issuer.issuer.keys {
                KeySource::File(path) => KeySet::File(path.clone()),
                KeySource::Discovered { authorities } => {
                    let discovery = Discovery::new(&url, authorities.clone())?;
                    discovery.begin(&mut lock(&discovery.state), Instant::now());
                    KeySet::Discovered(discovery)
                }
            };
            Ok((url, set))
        });
        sets.collect::<Result<_, Error>>().map(KeySets)
    }

    /// The keys of the issuer `url`, a JSON web key set, among which `id` should be. Reads a file,
    /// or waits for the issuer for some seconds.
    ///
    /// # Errors
    /// In words for the client, when there are none now.
    pub(super) fn of(&self, url: &str, id: Option<&str>, now: Instant) -> Result<Arc<str>, String> {
        let set = self.0.iter().find(|(known, _)| known == url);
        match set.ok_or_else(|| "tokens of that issuer are not taken here".to_owned())? {
            (_, KeySet::File(path)) => std::fs::read_to_string(path)
                .map(Arc::from)
                .map_err(|_| "this node cannot read the issuer's keys".to_owned()),
            (_, KeySet::Discovered(discovery)) => discovery.keys(id, now),
        }
    }
}

impl Discovery {
    fn new(url: &str, authorities: Option<PathBuf>) -> Result<Arc<Discovery>, Error> {
        let (trust, _) = trust::client(&Trust { authorities, ..Trust::default() }, None)?;
        let (state, fetched) = (Mutex::default(), Condvar::new());
        Ok(Arc::new(Discovery { url: url.to_owned(), trust, state, fetched }))
    }

    fn keys(self: &Arc<Discovery>, id: Option<&str>, now: Instant) -> Result<Arc<str>, String> {
        let mut state = lock(&self.state);
        let (is_fresh, found) = state.lookup(id, now);
        let is_due = state.tried.is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if !(is_fresh && found.is_some()) && is_due {
            self.begin(&mut state, now);
        }
        // What is past its time counts while it is fetched again: an issuer that is away for an
        // hour keeps nobody out.
        if let Some(keys) = found {
            return Ok(keys);
        }
        if state.is_running && state.waiting < MOST_WAITING {
            state.waiting += 1;
            let waited = self.fetched.wait_timeout_while(state, TIMEOUT, |state| state.is_running);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        match &state.keys {
            // That the id is not among them is said by whoever looks for it.
            Some(cached) if cached.holds(now) => Ok(Arc::clone(&cached.keys)),
            _ if state.is_running => Err(format!("the keys of {} are on their way", self.url)),
            _ => Err(format!("the keys of {} cannot be had: {}", self.url, state.failure)),
        }
    }

    /// Has the keys fetched by a thread of its own, unless one is at it.
    fn begin(self: &Arc<Discovery>, state: &mut State, now: Instant) {
        if state.is_running {
            return;
        }
        (state.is_running, state.tried) = (true, Some(now));
        let own = Arc::clone(self);
        let thread =
            std::thread::Builder::new().name("issuer's keys".to_owned()).spawn(move || {
                let came = own.fetch();
                let mut state = lock(&own.state);
                state.is_running = false;
                match came {
                    Ok((keys, good_for)) => {
                        state.keys = Some(CachedKeys { keys, at: now, good_for });
                        state.failure.clear();
                    }
                    Err(why) => state.failure = why,
                }
                own.fetched.notify_all();
            });
        if let Err(error) = thread {
            (state.is_running, state.failure) = (false, error.to_string());
        }
    }

    /// The keys, and how long they are good for.
    fn fetch(&self) -> Result<(Arc<str>, Duration), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let both = async {
            let at = format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/'));
            let document = fetch(&at, &self.trust).await?;
            let place = place_of_keys(&self.url, &document.body)?;
            let Reply { body, max_age } = fetch(&place, &self.trust).await?;
            IssuerKeys::read(&body).map_err(|why| format!("{place}: {why}"))?;
            let keys = String::from_utf8_lossy(&body);
            let good_for = max_age.map_or(USUALLY_KEPT, Duration::from_secs);
            Ok((Arc::from(keys), good_for.clamp(*CACHED_FOR.start(), *CACHED_FOR.end())))
        };
        let within = runtime
            .map_err(|error| error.to_string())?
            .block_on(async { tokio::time::timeout(TIMEOUT, both).await });
        within.unwrap_or_else(|_| Err(format!("nothing came within {}", Span::from(TIMEOUT))))
    }
}

/// Where the discovery document of the issuer `url` says that its keys are.
///
/// # Errors
/// In words, for one that is no such document, or of another issuer.
pub(super) fn place_of_keys(url: &str, document: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Document {
        issuer: String,
        jwks_uri: String,
        /// What nobody asks for has to be JSON too: without this its strings could be anything.
        #[serde(flatten)]
        _others: BTreeMap<String, Value>,
    }
    let document: Document = serde_json::from_slice(document)
        .map_err(|error| format!("its discovery document: {error}"))?;
    // Section 4.3: whoever may write to one folder of a host is not its issuer.
    match document.issuer == url {
        true => Ok(document.jwks_uri),
        false => Err(format!("its discovery document is of {}", document.issuer)),
    }
}

impl State {
    /// Whether what there is needs no fetch yet, and the keys if `id` is among them.
    fn lookup(&self, id: Option<&str>, now: Instant) -> (bool, Option<Arc<str>>) {
        let Some(cached) = self.keys.as_ref().filter(|cached| cached.holds(now)) else {
            return (false, None);
        };
        let set = IssuerKeys::read(cached.keys.as_bytes());
        let is_there = set.is_ok_and(|set| id.is_none_or(|id| set.has(id)));
        let is_fresh = now.saturating_duration_since(cached.at) < cached.good_for;
        (is_fresh, is_there.then(|| Arc::clone(&cached.keys)))
    }
}

impl CachedKeys {
    /// Whether they count at all.
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < *CACHED_FOR.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::https::tests::Server;
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    /// A set with keys of these ids.
    fn set(ids: &[&str]) -> String {
        let keys: Vec<_> = ids
            .iter()
            .map(|id| json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": id, "x": "AA"}))
            .collect();
        json!({ "keys": keys }).to_string()
    }

    /// An issuer whose keys are these, and what knows it.
    fn issuer(ids: &[&str], header: &str) -> (Server, Arc<Discovery>) {
        let server = Server::start();
        let document = json!({"issuer": server.url(""), "jwks_uri": server.url("/jwks")});
        server.put("/.well-known/openid-configuration", "", &document.to_string());
        server.put("/jwks", header, &set(ids));
        let url = server.url("");
        let known = Discovery::new(&url, Some(server.authority.clone())).expect("readable");
        (server, known)
    }

    #[test]
    fn keys_are_fetched_once_and_for_a_new_one_once_a_minute() {
        let (server, known) = issuer(&["one"], "Cache-Control: public, max-age=7200\r\n");
        let now = Instant::now();
        for later in [0, 1, 7_199] {
            let keys = known.keys(Some("one"), now + later * SECOND).expect("keys");
            assert_eq!(&*keys, set(&["one"]));
        }
        assert_eq!(server.asked("/jwks"), 1);
        server.put("/jwks", "", &set(&["one", "two"]));
        // Whoever shows ids that nobody has has the issuer asked once a minute, and no more.
        for (later, asked) in [(30, 1), (70, 2), (71, 2), (100, 2)] {
            let keys =
                known.keys(Some(if later < 70 { "two" } else { "none" }), now + later * SECOND);
            let has_two = keys.expect("a set").contains("two");
            assert_eq!((server.asked("/jwks"), has_two), (asked, later >= 70), "{later}");
        }
        assert!(known.keys(Some("two"), now + 101 * SECOND).expect("keys").contains("two"));
    }

    #[test]
    fn keys_past_their_time_hold_while_the_issuer_is_away_for_a_day() {
        let (server, known) = issuer(&["one"], "cache-control: max-age=1\r\n");
        let now = Instant::now();
        known.keys(Some("one"), now).expect("keys");
        // At least five minutes.
        known.keys(Some("one"), now + 299 * SECOND).expect("keys");
        assert_eq!(server.asked("/jwks"), 1);
        server.put("/jwks", "", "gone");
        let day = *CACHED_FOR.end();
        known.keys(Some("one"), now + day - SECOND).expect("old keys");
        // The fetch that began then brings nothing, nor does the next.
        let refused = known.keys(Some("one"), now + day + 120 * SECOND).expect_err("too old");
        assert!(refused.contains("cannot be had"), "{refused}");
    }

    #[test]
    fn a_discovery_document_is_json_to_its_last_member() {
        let url = "https://issuer.example";
        for (other, is_taken) in
            [(&b"\"x\""[..], true), (b"\"\xca\xc8\"", false), (b"\"\\ud800\"", false)]
        {
            let known = format!("{{\"issuer\":\"{url}\",\"jwks_uri\":\"{url}/j\",\"alg\":");
            let document = [known.as_bytes(), other, b"}"].concat();
            let place = place_of_keys(url, &document);
            assert_eq!(place.is_ok(), is_taken, "{place:?}");
        }
    }

    #[test]
    fn who_is_not_the_issuer_says_nothing_of_its_keys() {
        type Change = fn(&Server);
        let well_known = "/.well-known/openid-configuration";
        let of_no_use = |server: &Server| {
            let keys = json!({"keys": [{"kty": "AKP", "alg": "ML-DSA-65", "pub": "AA"}, 7]});
            server.put("/jwks", "", &keys.to_string());
        };
        let cases: [(Change, &str); 7] = [
            (of_no_use, "none of its keys, 2 in all, checks signatures here"),
            (|server| server.put("/jwks", "", "[]"), "/jwks"),
            (|server| server.put("/jwks", "", "{\"keys\": []}"), "no keys"),
            (|server| server.put("/jwks", "", &"x".repeat(300_000)), "more than 256 KiB"),
            (|server| server.remove("/jwks"), "404"),
            (
                |server| {
                    let other =
                        json!({"issuer": "https://x.example", "jwks_uri": server.url("/jwks")});
                    server.put("/.well-known/openid-configuration", "", &other.to_string());
                },
                "is of https://x.example",
            ),
            (
                |server| {
                    let clear = server.url("/jwks").replace("https", "http");
                    let clear = json!({"issuer": server.url(""), "jwks_uri": clear});
                    server.put("/.well-known/openid-configuration", "", &clear.to_string());
                },
                "no URL of HTTPS",
            ),
        ];
        for (change, why) in cases {
            let (server, known) = issuer(&["one"], "");
            change(&server);
            let refused = known.keys(Some("one"), Instant::now()).expect_err(why);
            assert!(refused.contains(why), "{refused}, not {why}");
            assert_eq!(server.asked(well_known), 1);
        }
        // Nor a host of that name whose certificate nobody vouches for.
        let (server, other) = (issuer(&["one"], ""), Server::start());
        let known = Discovery::new(&server.0.url(""), Some(other.authority.clone()));
        let refused = known.expect("readable").keys(None, Instant::now()).expect_err("a stranger");
        assert!(refused.contains("certificate"), "{refused}");
        assert_eq!(server.0.asked(well_known), 0);
    }
}
