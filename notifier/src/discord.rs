//! Alerts to Discord, by one webhook. The only file here that names reqwest.
//!
//! Discord's rules (Developer Docs, Rate Limits and Execute Webhook) are kept to the second: a wait that it names is sat
//! out, however long and however often, and none is asked for when it said that nothing remains. What it does not know
//! (404) or refuses (401) is dead until the address is another one. The address is a secret: who has it writes there.

mod wait;
mod words;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response, Url, redirect, retry};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use ukai_protocol::command::quoted;
use ukai_protocol::disk;
use ukai_protocol::secret::Secret;

use crate::message::{Deliver, Message, Outcome, Trouble};
use crate::redact::Redactor;
use crate::{push, render};

pub const NAME: &str = "discord";
const API_VERSION: &str = "v10";
/// Tries at one message while Discord fails or cannot be reached (spec §12).
const TRIES: u32 = 5;
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of an answer: the message as it came in, 8,000 characters at six bytes each, and as much again around them.
const ANSWER_BYTES_MAX: usize = 128 * 1024;
const CERT_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Why an address is not used. It does not stand in any of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    #[error("it is no address of the form https://discord.com/api/webhooks/ID/TOKEN")]
    NotAnAddress,
    #[error("it is neither https nor http to this machine")]
    NotSafe,
    #[error("the CAs of SSL_CERT_FILE could not be read: {0}")]
    Roots(String),
    #[error("TLS could not be set up: {0}")]
    Setup(String),
}

pub struct Discord {
    client: Client,
    url: Url,
    identity: String,
    redactor: Redactor,
    /// It tells of a demo.
    demo: bool,
    /// It asked not to be asked before.
    not_before: Option<Instant>,
    /// The least that is waited after a 429.
    floor: Duration,
    /// What the last try came to.
    trouble: Trouble,
}

impl fmt::Debug for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discord").finish_non_exhaustive()
    }
}

/// What came of one request.
enum Answer {
    Delivered,
    /// Not before this is over.
    Wait(Duration),
    /// It failed, and may work at the next try.
    Again(String),
    Dropped(String),
    Dead(String),
}

impl Discord {
    /// `left_to_wait`: what an earlier process was asked to wait for. `redactor`: for whatever Discord says. `demo`: each
    /// message says that it is of one.
    pub fn new(
        webhook: &Secret,
        left_to_wait: Option<Duration>,
        redactor: Redactor,
        demo: bool,
    ) -> Result<Self, WebhookError> {
        let mut url = Url::parse(webhook.expose().trim()).map_err(|_| WebhookError::NotAnAddress)?;
        let host = url.host_str().ok_or(WebhookError::NotAnAddress)?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(host) => {}
            _ => return Err(WebhookError::NotSafe),
        }
        pin_version(&mut url);
        let identity = identity(webhook);
        // With `wait`, Discord says whether the message is there. What else stands in the query (`thread_id`) stays.
        let others: Vec<(String, String)> =
            url.query_pairs().filter(|(key, _)| key != "wait").map(|(key, value)| (key.into(), value.into())).collect();
        url.query_pairs_mut().clear().extend_pairs(others).append_pair("wait", "true");
        let not_before = left_to_wait.and_then(|left| push::now().checked_add(left));
        let (client, floor, trouble) = (client()?, wait::FLOOR, Trouble::default());
        Ok(Discord { client, url, identity, redactor, demo, not_before, floor, trouble })
    }

    async fn ask(&mut self, body: &Value) -> Answer {
        let request =
            self.client.post(self.url.clone()).header("content-type", "application/json").body(body.to_string());
        let response = match tokio::time::timeout(TIMEOUT, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Answer::Again(self.redactor.redacted(&unreached(error.without_url()))),
            Err(_) => return Answer::Again(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let reset_after = header("x-ratelimit-reset-after");
        if header("x-ratelimit-remaining").as_deref() == Some("0")
            && let Some(wait) = reset_after.as_deref().and_then(wait::seconds)
        {
            self.not_before = push::now().checked_add(wait);
        }
        // What breaks off is no JSON: of a 200 that is no message, of any other status it is less to say.
        let text = tokio::time::timeout(TIMEOUT, bounded(response)).await.unwrap_or_default();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let words = || words::words(status, &json, &self.redactor);
        match status {
            // A network that wants a login first answers with a page. Anything else has taken the message, and to send it
            // again would tell the owner twice.
            200..300 if is_page(&headers, &text) => {
                Answer::Again(format!("HTTP {status} with a page in it: it does not look like Discord"))
            }
            200..300 => Answer::Delivered,
            // Where it points is not asked: the address is a secret. Such a network does this too.
            300..=399 => Answer::Again(format!("HTTP {status}, to somewhere else: it does not look like Discord")),
            429 => {
                let wait = wait::of_429(&json, header("retry-after").as_deref(), reset_after.as_deref());
                let wait = wait.max(self.floor);
                tracing::info!(
                    sink = NAME,
                    global = json["global"] == true,
                    wait_s = wait.as_secs_f64(),
                    "it asks to wait"
                );
                Answer::Wait(wait)
            }
            401 | 404 => Answer::Dead(words()),
            500.. => Answer::Again(words()),
            _ => Answer::Dropped(words()),
        }
    }
}

impl Deliver for Discord {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn deliver(&mut self, message: &Message) -> Outcome {
        let body = render::discord(message, self.demo);
        let mut tries = 0;
        match self.left_to_wait() {
            Some(left) => self.trouble.waits(asks_to_wait(left), self.not_before),
            None => self.trouble.set(None),
        }
        loop {
            // A timer holds two years at most, and goes off then.
            while let Some(at) = self.not_before {
                tokio::time::sleep_until(at.into()).await;
                self.not_before = self.not_before.filter(|at| *at > push::now());
            }
            match self.ask(&body).await {
                Answer::Delivered => return Outcome::Delivered,
                Answer::Dropped(why) => return Outcome::Dropped(why),
                Answer::Dead(why) => return Outcome::Dead(why),
                // However often: it is the one who says when.
                Answer::Wait(wait) => {
                    self.not_before = push::now().checked_add(wait);
                    self.trouble.waits(asks_to_wait(wait), self.not_before);
                }
                Answer::Again(why) => {
                    tries += 1;
                    self.trouble.set(Some(why.clone()));
                    if tries == TRIES {
                        return Outcome::Failed(format!("{why}, {TRIES} times"));
                    }
                    let backoff = BACKOFF_FIRST * 2_u32.pow(tries - 1);
                    tokio::time::sleep(backoff.mul_f64(1.0 + rand::random::<f64>() / 4.0)).await;
                }
            }
        }
    }

    fn left_to_wait(&self) -> Option<Duration> {
        self.not_before.map(|at| at.saturating_duration_since(push::now())).filter(|left| !left.is_zero())
    }

    fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }

    fn cure(&self) -> String {
        format!(
            "{} tries it again; where the webhook is gone, make one in Discord (a channel's settings, Integrations), put its \
             address into UKAI_DISCORD_WEBHOOK and start again",
            quoted(&["notify", "test"])
        )
    }
}

fn is_page(headers: &HeaderMap, text: &str) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.to_ascii_lowercase().contains("html") || text.trim_start().starts_with('<')
}

/// A hash of the address: whose wait, and whose death, is remembered.
#[must_use]
pub fn identity(webhook: &Secret) -> String {
    blake3::hash(webhook.expose().trim().as_bytes()).to_hex().to_string()
}

/// An address as Discord shows it names no version, and is then answered as the oldest one was: with waits in
/// milliseconds (discord-api-docs#4722). Ours is one whose waits are seconds.
fn pin_version(url: &mut Url) {
    let is_discord = url.host_str().is_some_and(|host| {
        ["discord.com", "discordapp.com"].iter().any(|name| host == *name || host.ends_with(&format!(".{name}")))
    });
    let path = url.path().to_owned();
    let unversioned = path.strip_prefix("/api/webhooks/").filter(|_| is_discord);
    let versioned = path.strip_prefix("/api/v").and_then(|rest| rest.split_once("/webhooks/")).filter(|_| is_discord);
    if let Some(rest) = unversioned.or(versioned.map(|(_, rest)| rest)) {
        url.set_path(&format!("/api/{API_VERSION}/webhooks/{rest}"));
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// No redirect (the address is a secret), no repetition but ours, no proxy of the environment.
fn client() -> Result<Client, WebhookError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = std::env::var_os("SSL_CERT_FILE") {
        let pem = disk::read_bounded(path.as_ref(), CERT_FILE_BYTES_MAX)
            .map_err(|error| WebhookError::Roots(error.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| WebhookError::Roots(error.to_string()))?;
            roots.add(certificate).map_err(|error| WebhookError::Roots(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| WebhookError::Setup(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        // In the form that Discord asks for (Developer Docs, User Agent).
        .user_agent(concat!("DiscordBot (ukai, ", env!("CARGO_PKG_VERSION"), ")"))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .referer(false)
        .connect_timeout(TIMEOUT)
        .build()
        .map_err(|error| WebhookError::Setup(error.to_string()))
}

/// With what lies at its root: reqwest's own words do not say that nobody listens.
fn unreached(error: reqwest::Error) -> String {
    let mut root: &dyn std::error::Error = &error;
    while let Some(source) = root.source() {
        root = source;
    }
    format!("{error}: {root}")
}

fn asks_to_wait(wait: Duration) -> String {
    format!("it asks to wait for {:.1} s", wait.as_secs_f64())
}

async fn bounded(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk[..chunk.len().min(ANSWER_BYTES_MAX - bytes.len())]),
            Ok(None) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
