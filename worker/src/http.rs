//! The way out to a provider, and the only file that names reqwest.
//!
//! One request in, one answer out: no redirect is followed (a key must not travel to a host nobody configured), no
//! request is repeated (the router alone decides that), no proxy is taken from the environment (a job's traffic goes
//! where its configuration says; whoever wants a gateway names it as `base_url`). TLS is built by hand from ring and
//! the compiled-in Mozilla roots, since the platform's verifier costs each worker 3 ms and 1 MB; `SSL_CERT_FILE` adds
//! the CAs of the machine.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::http::{Extensions, HeaderMap};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::{Client, Request, Response, redirect, retry};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Next};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// A client is kept per connect timeout; a job meets one per provider, so that this many are enough.
const CLIENTS_MAX: usize = 8;
/// Shorter than the shortest keep-alive in common use (5 s): a connection that the server is about to close looks, to
/// the breaker, like a provider that resets.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// A job has one request in flight.
const POOL_IDLE_PER_HOST_MAX: usize = 1;
/// TLS sessions to go on with: eight for each server, as rustls counts them. Its default is 256, and it makes room for
/// all of them at once.
const SESSIONS_KEPT_MAX: usize = 8 * CLIENTS_MAX;
/// A bundle of all public CAs is 250 kB.
const CERT_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the CAs of SSL_CERT_FILE could not be read from {path}: {why}; correct or unset the variable")]
    Roots { path: PathBuf, why: String },
    #[error("TLS could not be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client could not be set up: {0}")]
    Client(#[from] reqwest::Error),
}

/// Why there is no answer, or no more of it. What a caller would do differently, nothing finer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Refused,
    Reset,
    Dns,
    Tls,
    ConnectTimeout,
    /// A connection that was kept from the last answer turned out to be closed when it was used.
    Stale,
    /// The exchange began and broke off, or was no HTTP.
    Broken,
    /// It never left: the URL or a header is none.
    Invalid,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct TransportError {
    pub fault: Fault,
    pub detail: String,
}

/// Built once per process; clones of the clients inside share their connections.
pub struct Http {
    tls: ClientConfig,
    clients: Mutex<Vec<(Duration, ClientWithMiddleware)>>,
    kept: Kept,
}

/// Where an answer was read to its end, and when: its connection may serve the next request. Servers and what stands
/// between close such connections without a word, and whoever finds one closed has not been failed by a provider.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<HashMap<String, Instant>>>);

impl Kept {
    fn keep(&self, url: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CLIENTS_MAX {
            kept.clear();
        }
        kept.insert(url.to_owned(), Instant::now());
    }

    /// Whether a request to this URL may go out on a kept connection; only the next one may.
    fn take(&self, url: &str) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(url).is_some_and(|at| at.elapsed() <= POOL_IDLE)
    }
}

/// A POST, ready to go.
pub struct Post<'a> {
    pub url: &'a str,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub connect_timeout: Duration,
}

/// Status and headers are here; the body is pulled, so that a slow reader slows the socket.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    response: Response,
    url: String,
    kept: Kept,
}

impl Http {
    pub fn new() -> Result<Self, SetupError> {
        Self::with_roots(std::env::var_os(CERT_FILE_VARIABLE).map(PathBuf::from).as_deref())
    }

    /// `extra`: a PEM file whose CAs are trusted besides the compiled-in ones.
    pub fn with_roots(extra: Option<&Path>) -> Result<Self, SetupError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = extra {
            add_roots(&mut roots, path).map_err(|why| SetupError::Roots { path: path.to_owned(), why })?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.resumption = Resumption::in_memory_sessions(SESSIONS_KEPT_MAX);
        Ok(Http { tls, clients: Mutex::new(Vec::new()), kept: Kept::default() })
    }

    /// Sends exactly one request. Dropping the future, or the answer, closes the connection.
    pub async fn post(&self, post: Post<'_>) -> Result<Answer, TransportError> {
        let client = self.client(post.connect_timeout).map_err(|error| invalid(&error))?;
        let reused = self.kept.take(post.url);
        let request = client.post(post.url).headers(post.headers).body(post.body);
        let response = request.send().await.map_err(|error| match error {
            reqwest_middleware::Error::Reqwest(error) => {
                let mut error = fault(error);
                if reused && matches!(error.fault, Fault::Reset | Fault::Broken) {
                    error.fault = Fault::Stale;
                }
                error
            }
            reqwest_middleware::Error::Middleware(error) => invalid(&*error),
        })?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            response,
            url: post.url.to_owned(),
            kept: self.kept.clone(),
        })
    }

    fn client(&self, connect_timeout: Duration) -> Result<ClientWithMiddleware, reqwest::Error> {
        // A panic while this is held can only leave a shorter list.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(timeout, _)| *timeout == connect_timeout) {
            return Ok(client.clone());
        }
        let client = Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .user_agent(concat!("ukai/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_IDLE_PER_HOST_MAX)
            .tcp_nodelay(true)
            .build()?;
        let client = ClientBuilder::new(client).with(traced).build();
        if clients.len() == CLIENTS_MAX {
            clients.remove(0);
        }
        clients.push((connect_timeout, client.clone()));
        Ok(client)
    }
}

impl Answer {
    /// The next bytes of the body; `None` at its proper end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        let chunk = self.response.chunk().await.map_err(|error| {
            let mut error = fault(error);
            if error.fault != Fault::Reset {
                error.fault = Fault::Broken;
            }
            error
        })?;
        if chunk.is_none() {
            self.kept.keep(&self.url);
        }
        Ok(chunk)
    }
}

fn add_roots(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let pem = ukai_protocol::disk::read_bounded(path, CERT_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        added += 1;
    }
    if added == 0 { Err("it holds no certificate".to_owned()) } else { Ok(()) }
}

/// Says who was asked and how it went, and never what was said: headers carry keys, bodies carry the work.
fn traced<'a>(
    request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> BoxFuture<'a, reqwest_middleware::Result<Response>> {
    Box::pin(async move {
        let method = request.method().clone();
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let begun = Instant::now();
        let answer = next.run(request, extensions).await;
        let ms = begun.elapsed().as_millis() as u64;
        match &answer {
            Ok(response) => tracing::debug!(%method, host, status = response.status().as_u16(), ms, "answered"),
            Err(_) => tracing::debug!(%method, host, ms, "no answer"),
        }
        answer
    })
}

fn invalid(error: &(dyn StdError + 'static)) -> TransportError {
    TransportError { fault: Fault::Invalid, detail: chain(error) }
}

fn fault(error: reqwest::Error) -> TransportError {
    // Of the address only what holds no key.
    let place = error.url().and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    let error = error.without_url();
    let fault = if error.is_builder() {
        Fault::Invalid
    } else if error.is_connect() && error.is_timeout() {
        Fault::ConnectTimeout
    } else if error.is_dns() {
        Fault::Dns
    } else {
        by_source(&error).unwrap_or(if error.is_connect() { Fault::Refused } else { Fault::Broken })
    };
    let detail = match (fault, place) {
        (Fault::Refused, Some(place)) => format!("nothing listens at {place}: is that server running?"),
        (_, Some(place)) => format!("{place}: {}", chain(&error)),
        (_, None) => chain(&error),
    };
    TransportError { fault, detail }
}

fn by_source(error: &reqwest::Error) -> Option<Fault> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                return Some(Fault::Tls);
            }
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Some(Fault::Refused),
                io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
                    return Some(Fault::Reset);
                }
                _ => {}
            }
        }
        source = error.source();
    }
    None
}

/// The causes in a row, each said once: reqwest's own text names only the outermost.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cert_file_that_is_none_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").expect("written");
        for (path, why) in [(empty, "no certificate"), (folder.path().join("none.pem"), "No such file")] {
            let error = Http::with_roots(Some(&path)).err().expect("refused").to_string();
            assert!(error.contains(why) && error.contains(path.to_str().expect("text")), "{error}");
        }
    }

    #[tokio::test]
    async fn no_answer_is_told_apart() {
        let http = Http::with_roots(None).expect("built");
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("address");
        for (url, expected) in [
            (format!("http://{closed}/v1"), Fault::Refused),
            ("http://no-such-host.invalid/v1".to_owned(), Fault::Dns),
            ("not a url".to_owned(), Fault::Invalid),
        ] {
            let post = Post {
                url: &url,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                connect_timeout: Duration::from_secs(5),
            };
            let error = http.post(post).await.expect_err("nobody is there");
            assert_eq!(error.fault, expected, "{url}: {error}");
            assert!(!error.to_string().contains("/v1"), "the URL is not repeated: {error}");
        }
    }
}
