//! The query endpoint of a Prometheus: address, authentication, limits on time and size,
//! and its error messages.

use std::sync::Arc;
use std::time::SystemTime;

use http::{StatusCode, header};
use parking_lot::Mutex;
use reqwest::{Client, Response};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::credentials::{Secrets, authorize, unread};
use crate::decode::{AnswerDecoder, DecodeError, Elements};
use crate::error::{Error, ErrorKind};
use crate::query;
use crate::settings::{Auth, PrometheusSettings, Verb};
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use cloud_auth::{Authenticator, CloudAuthError};
use limits::file;

use super::clock::{clock_skew, skew_text};
use super::transport;

/// The largest accepted skew of the clocks. NTP keeps them within seconds; beyond half a
/// minute all samples would look stale, or stale ones would look fresh.
const MAX_SKEW_MS: i64 = 30_000;

/// The most bytes of an answer: one without end is none.
const MOST_BYTES: usize = 8 << 30;

/// The most bytes of all answers to rules that are being read: their samples take some
/// four times as much.
const MOST_RULE_BYTES: usize = 32 << 20;

/// How much of the beginning of an answer is kept for its error message.
pub(super) const BEGINNING_BYTES: usize = 64 << 10;

/// Sends queries to one Prometheus.
pub(super) struct Endpoint {
    pub(super) settings: PrometheusSettings,
    /// For messages, without credentials and parameters.
    pub(super) address: String,
    authenticator: Option<Authenticator>,
    /// The bytes that answers to rules may still have.
    rule_bytes: Semaphore,
    built: Mutex<BuiltClient>,
}

struct BuiltClient {
    client: Client,
    /// When the certificate files were written.
    written: Vec<Option<SystemTime>>,
}

/// The purpose of a query, which decides its path and its limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The samples of signals. The store's clock is compared with the time of the call.
    Poll(Timestamp),
    /// A rule's value at a time.
    Rule,
    /// Values over a time range.
    Range,
    /// Samples as they are stored.
    Samples,
    /// The series that exist.
    Series,
}

impl Kind {
    /// The name of its endpoint.
    const fn endpoint(self) -> &'static str {
        match self {
            Self::Poll(_) | Self::Rule | Self::Samples => "query",
            Self::Range => "query_range",
            Self::Series => "series",
        }
    }
}

impl Endpoint {
    pub(super) fn new(settings: PrometheusSettings) -> Result<Self, Error> {
        // reqwest uses the process's provider; installing it twice has no effect.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut shown = settings.url.clone();
        shown.set_query(None);
        let address = shown.as_str().trim_end_matches('/').to_owned();
        let authenticator = match &settings.auth {
            Auth::Cloud(method) => {
                let variables = Box::new(|name: &str| std::env::var(name).ok());
                let made = Authenticator::new(method.clone(), &settings.url, variables);
                Some(made.map_err(|why| unauthenticated(&address, &why))?)
            }
            _ => None,
        };
        let written = settings.tls.written();
        let client = transport::build(&settings, &address)?;
        Ok(Self {
            settings,
            address,
            authenticator,
            rule_bytes: Semaphore::new(MOST_RULE_BYTES),
            built: Mutex::new(BuiltClient { client, written }),
        })
    }

    /// The parameters of a query at a time. After the timeout the store stops the query,
    /// because the client no longer waits.
    pub(super) fn form(&self, promql: &str, at: Timestamp) -> String {
        query::form([
            ("query", promql),
            ("time", &at.to_string()),
            ("timeout", &format_duration(self.settings.timeout)),
        ])
    }

    /// Sends a query with these parameters, and reads the elements of its answer as they
    /// arrive. Returns the store's clock minus this server's in milliseconds; `None`: unknown,
    /// or not compared.
    pub(super) async fn ask(
        self: &Arc<Self>,
        kind: Kind,
        form: &str,
        elements: &mut (impl Elements + Send),
    ) -> Result<Option<i64>, Error> {
        let asked = Instant::now();
        let (response, secrets) = self.send(kind, form).await?;
        let clock_skew = match kind {
            Kind::Poll(now) => clock_skew(response.headers(), now, asked.elapsed()),
            _ => None,
        };
        // A store refuses a signature if its time is wrong, so this comes before the status.
        if let Some(skew_ms) = clock_skew.filter(|skew| skew.abs() > MAX_SKEW_MS) {
            return Err(self.failed(ErrorKind::ClockSkew, skew_text(skew_ms)));
        }
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response, &secrets).await);
        }
        // VictoriaMetrics, which names its host, marks the end of a series with NaN and has no
        // other NaN.
        if response.headers().contains_key("x-server-hostname") {
            elements.skip_nan();
        }
        self.receive(kind, response, &secrets, elements).await?;
        Ok(clock_skew)
    }

    async fn receive(
        &self,
        kind: Kind,
        mut response: Response,
        secrets: &Secrets,
        elements: &mut (impl Elements + Send),
    ) -> Result<(), Error> {
        let mut decoder = AnswerDecoder::default();
        let (mut beginning, mut bytes) = (Vec::new(), 0);
        // Returned when the answer was read.
        let mut held = Vec::new();
        let too_large = |what: &str, most: usize| {
            let text = format!("{what} larger than {most} bytes");
            self.failed(ErrorKind::TooLarge, text)
        };
        let broken = |error| self.failure(&error);
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            let room = BEGINNING_BYTES - beginning.len();
            beginning.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            bytes += chunk.len();
            if bytes > MOST_BYTES {
                return Err(too_large("the answer is", MOST_BYTES));
            }
            if let Kind::Rule = kind {
                let size = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
                let permit = self.rule_bytes.try_acquire_many(size);
                let what = "this answer and other answers to rules are";
                held.push(permit.map_err(|_| too_large(what, MOST_RULE_BYTES))?);
            }
            let fed = decoder.feed(&chunk, elements);
            fed.map_err(|error| self.unusable(&error, &beginning, secrets))?;
        }
        let finished = decoder.finish(elements);
        finished.map_err(|error| self.unusable(&error, &beginning, secrets))
    }

    pub(super) fn failed(&self, kind: ErrorKind, text: impl Into<String>) -> Error {
        Error::new(kind, self.address.as_str(), text)
    }

    /// The error of an answer with this beginning.
    fn unusable(&self, error: &DecodeError, beginning: &[u8], secrets: &Secrets) -> Error {
        let reason = secrets.excerpt(&error.to_string());
        match error {
            DecodeError::Truncated => self.failed(ErrorKind::Truncated, reason),
            DecodeError::NotAnAnswer(_) => {
                let beginning = secrets.excerpt_of_beginning(beginning);
                let text = format!("{reason}; the answer begins with {beginning:?}");
                self.failed(ErrorKind::NotAnAnswer, text)
            }
            DecodeError::NoName => Error::refused(&self.address, 400, reason),
            DecodeError::TooMany { .. } => self.failed(ErrorKind::TooLarge, reason),
            DecodeError::Partial(_) => self.failed(ErrorKind::Partial, reason),
            DecodeError::ResultType(_) => self.failed(ErrorKind::Rejected, reason),
        }
    }

    /// The client; a new one if a certificate file has changed.
    async fn client(self: &Arc<Self>) -> Result<Client, Error> {
        let endpoint = Arc::clone(self);
        let renewed = file::run_blocking(move || endpoint.renew_client()).await;
        renewed.unwrap_or_else(|why| Err(unread("prometheus.tls", &why)))
    }

    /// Blocks.
    fn renew_client(&self) -> Result<Client, Error> {
        let mut built = self.built.lock();
        let written = self.settings.tls.written();
        if written != built.written {
            built.client = transport::build(&self.settings, &self.address)?;
            built.written = written;
        }
        Ok(built.client.clone())
    }

    async fn send(self: &Arc<Self>, kind: Kind, form: &str) -> Result<(Response, Secrets), Error> {
        let client = self.client().await?;
        let mut url = query::endpoint(&self.settings.url, kind.endpoint());
        let request = match self.settings.verb {
            Verb::Get => {
                let fixed = url.query().map(|fixed| format!("{fixed}&"));
                let params = fixed.unwrap_or_default() + form;
                url.set_query(Some(&params));
                client.get(url)
            }
            Verb::Post => client
                .post(url)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.to_owned()),
        };
        // Configured headers go last: one of them may replace `Authorization`, or ask for gzip,
        // which the client decodes by the header of the answer. Compression costs the store more
        // than the network of a cluster.
        let (request, secret) = authorize(&self.settings.auth, request).await?;
        let request = request
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, "identity")
            .headers(self.settings.headers.clone());
        let failed = |error| self.failure(&error);
        let mut request = request.build().map_err(failed)?;
        if let Some(authenticator) = &self.authenticator {
            let authorized = authenticator.authorize(&mut request).await;
            authorized.map_err(|why| unauthenticated(&self.address, &why))?;
        }
        let secrets = Secrets::new(request.headers(), secret);
        let response = client.execute(request).await.map_err(failed)?;
        Ok((response, secrets))
    }
}

/// The error if a request can get no signature or access token. `reason` has the remedy.
fn unauthenticated(address: &str, reason: &CloudAuthError) -> Error {
    let text = format!("no credentials: {reason}");
    Error::new(ErrorKind::Credentials, address, text)
}
