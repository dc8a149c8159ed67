//! The query endpoint of a Prometheus: address, authentication, limits on time and size,
//! and its error messages.

use std::sync::Arc;

use http::{StatusCode, header};
use reqwest::{Client, Response};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::credentials::{Secrets, TlsMaterial, authorize};
use crate::decode::{AnswerDecoder, DecodeError, Elements, Envelope, Nan};
use crate::error::{Cause, Error, ErrorKind, skew_text};
use crate::query;
use crate::settings::{Auth, Compression, PrometheusSettings, Verb};
use apimachinery::condition::Condition;
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use cloud_auth::{Authenticator, CloudAuthError};

use super::clock::clock_skew;
use super::transport;

/// The largest accepted skew of the clocks. NTP keeps them within seconds; beyond half a
/// minute all samples would look stale, or stale ones would look fresh.
const MAX_SKEW_MS: i64 = 30_000;

/// The most bytes of an answer whose elements are used as they arrive: an answer without
/// end is none.
const MOST_BYTES: usize = 8 << 30;

/// The most bytes of an answer that is in memory as a whole.
const MOST_KEPT_BYTES: usize = 256 << 20;

/// The most bytes of all answers to rules that are being read: their samples take some
/// four times as much.
const MOST_RULE_BYTES: usize = 32 << 20;

/// How much of the beginning of an answer is kept for its error message.
const BEGINNING_BYTES: usize = 16 << 10;

/// Sends queries to one Prometheus. Clones share connections and access tokens.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) settings: PrometheusSettings,
    /// For messages, without credentials and parameters.
    pub(super) address: Arc<str>,
    authenticator: Option<Arc<Authenticator>>,
    /// The bytes that answers to rules may still have.
    rule_bytes: Arc<Semaphore>,
    client: Client,
    material: TlsMaterial,
    /// Whether the changed certificate files can be used.
    condition: Condition<Error, ()>,
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
    /// The series that exist.
    Series,
}

impl Kind {
    /// The name of its endpoint.
    const fn endpoint(self) -> &'static str {
        match self {
            Self::Poll(_) | Self::Rule => "query",
            Self::Range => "query_range",
            Self::Series => "series",
        }
    }

    const fn most_bytes(self) -> usize {
        match self {
            Self::Poll(_) | Self::Series => MOST_BYTES,
            Self::Rule => MOST_RULE_BYTES,
            Self::Range => MOST_KEPT_BYTES,
        }
    }

    /// The remedy for an answer that is too large.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Poll(_) => "narrow prometheus.matchers",
            Self::Rule => "aggregate in the query, or select less",
            Self::Range => "select a shorter period",
            Self::Series => "narrow the seriesQuery",
        }
    }
}

/// An answer whose elements were read.
pub(super) struct Received {
    pub(super) envelope: Envelope,
    /// Its size, decompressed.
    pub(super) bytes: usize,
    /// The store's clock minus this server's in milliseconds; `None`: no valid `Date`, or
    /// not compared.
    pub(super) clock_skew: Option<i64>,
    /// Secrets that messages must not repeat.
    pub(super) secrets: Secrets,
}

impl Endpoint {
    pub(super) fn new(settings: PrometheusSettings) -> Result<Self, Error> {
        // reqwest uses the process's provider; installing it twice has no effect.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut shown = settings.url.clone();
        shown.set_query(None);
        let address: Arc<str> = shown.as_str().trim_end_matches('/').into();
        let authenticator = match &settings.auth {
            Auth::Cloud(method) => {
                let variables = Box::new(|name: &str| std::env::var(name).ok());
                let made = Authenticator::new(method.clone(), &settings.url, variables);
                Some(Arc::new(
                    made.map_err(|why| unauthenticated(&address, &why))?,
                ))
            }
            _ => None,
        };
        let material = TlsMaterial::read(&settings.tls)?;
        let client = transport::build(&settings, &material, &address)?;
        Ok(Self {
            settings,
            address,
            authenticator,
            rule_bytes: Arc::new(Semaphore::new(MOST_RULE_BYTES)),
            client,
            material,
            condition: Condition::default(),
        })
    }

    /// The parameters of a query at a time. After the timeout the store stops the query,
    /// because the client no longer waits.
    pub(super) fn form(&self, promql: &str, at: Timestamp) -> String {
        let timeout = format_duration(self.settings.timeout);
        query::form([
            ("query", promql),
            ("time", &at.to_string()),
            ("timeout", &timeout),
        ])
    }

    /// Sends a query with these parameters, and reads the elements of its answer as they
    /// arrive.
    pub(super) async fn ask(
        &self,
        kind: Kind,
        form: &str,
        elements: &mut (impl Elements + Send),
    ) -> Result<Received, Error> {
        let asked = Instant::now();
        let (response, secrets) = self.send(kind, form).await?;
        let clock_skew = match kind {
            Kind::Poll(now) => clock_skew(response.headers(), now, asked.elapsed()),
            Kind::Rule | Kind::Range | Kind::Series => None,
        };
        // A store refuses a signature if its time is wrong, so this comes before the status.
        if let Some(skew_ms) = clock_skew.filter(|skew| skew.abs() > MAX_SKEW_MS) {
            return Err(self.failed(ErrorKind::ClockSkew, skew_text(skew_ms)));
        }
        if response.status() != StatusCode::OK {
            return Err(transport::refusal(&self.address, response, &secrets).await);
        }
        // VictoriaMetrics names its host.
        if response.headers().contains_key("x-server-hostname") {
            elements.nan_means(Nan::StaleMarker);
        }
        let (envelope, bytes) = self.receive(kind, response, &secrets, elements).await?;
        Ok(Received {
            envelope,
            bytes,
            clock_skew,
            secrets,
        })
    }

    async fn receive(
        &self,
        kind: Kind,
        mut response: Response,
        secrets: &Secrets,
        elements: &mut (impl Elements + Send),
    ) -> Result<(Envelope, usize), Error> {
        let mut decoder = AnswerDecoder::new();
        let mut beginning = Vec::new();
        let mut bytes = 0;
        // Returned when the answer was read.
        let mut held = Vec::new();
        let refused = |error, beginning: &[u8], bytes| {
            let error = self.unusable(error, beginning, bytes, secrets);
            match error.kind() {
                ErrorKind::TooLarge => error.with_remedy(kind.remedy()),
                _ => error,
            }
        };
        let broken = |error| transport::failure(&self.address, self.settings.timeout, &error);
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            let room = BEGINNING_BYTES - beginning.len();
            beginning.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            bytes += chunk.len();
            let too_large = |what: &str| {
                let text = format!("{what} larger than {} bytes", kind.most_bytes());
                let error = self.failed(ErrorKind::TooLarge, text).because(Cause::Query);
                Err(error.with_remedy(kind.remedy()))
            };
            if bytes > kind.most_bytes() {
                return too_large("the answer is");
            }
            if matches!(kind, Kind::Rule) {
                match self
                    .rule_bytes
                    .try_acquire_many(u32::try_from(chunk.len()).unwrap_or(u32::MAX))
                {
                    Ok(permit) => held.push(permit),
                    Err(_) => return too_large("this answer and other answers to rules are"),
                }
            }
            decoder
                .feed(&chunk, elements)
                .map_err(|error| refused(error, &beginning, bytes))?;
        }
        let envelope = decoder.finish(elements);
        let envelope = envelope.map_err(|error| refused(error, &beginning, bytes))?;
        Ok((envelope, bytes))
    }

    fn failed(&self, kind: ErrorKind, text: impl Into<String>) -> Error {
        Error::new(kind, &*self.address, text)
    }

    /// Refuses an answer of another type, or with the engine's warnings.
    pub(super) fn check_matrix(&self, received: Received) -> Result<(), Error> {
        let Received {
            envelope, secrets, ..
        } = received;
        envelope
            .check_type("matrix")
            .map_err(|error| self.unusable(error, b"", 0, &secrets))?;
        let warnings = envelope.warnings();
        if warnings.is_empty() {
            return Ok(());
        }
        let warnings = secrets.excerpt(&warnings.join("; "));
        let text = format!("refused an answer that may be partial: {warnings}");
        Err(self.failed(ErrorKind::Partial, text))
    }

    /// The error of an answer with this beginning and size.
    pub(super) fn unusable(
        &self,
        error: DecodeError,
        beginning: &[u8],
        bytes: usize,
        secrets: &Secrets,
    ) -> Error {
        let reason = secrets.excerpt(&error.to_string());
        match error {
            DecodeError::Truncated => {
                let text = format!("the answer was cut off: {reason}, after {bytes} bytes");
                self.failed(ErrorKind::Truncated, text)
            }
            DecodeError::NotAnAnswer(_) if beginning.is_empty() => {
                self.failed(ErrorKind::NotAnAnswer, reason)
            }
            DecodeError::NotAnAnswer(_) => {
                let beginning = secrets.excerpt_of_beginning(beginning);
                let text = format!("{reason}; the answer begins with {beginning:?}");
                self.failed(ErrorKind::NotAnAnswer, text)
            }
            DecodeError::NoName => self
                .failed(ErrorKind::NotAnAnswer, reason)
                .because(Cause::Query),
            DecodeError::LargeElement | DecodeError::TooMany { .. } => self
                .failed(ErrorKind::TooLarge, reason)
                .because(Cause::Query),
            DecodeError::Status { error_type, error } => {
                Error::of_query(&self.address, &error_type, &error, &reason)
            }
        }
    }

    /// Builds a new client when a certificate file has changed. If the files cannot be
    /// used (as during a rotation), the old client stays in use.
    pub(super) async fn renew(&mut self) {
        let read = TlsMaterial::read_again(&self.settings.tls).await;
        let renewed = read.and_then(|material| {
            if material == self.material {
                return Ok(());
            }
            self.client = transport::build(&self.settings, &material, &self.address)?;
            self.material = material;
            Ok(())
        });
        let former = self.condition.set(renewed.err(), ());
        if let (Some(_), Some(error)) = (former, self.condition.state().reason()) {
            tracing::warn!(%error, "changed certificate files cannot be used; the former ones stay in use");
        }
    }

    async fn send(&self, kind: Kind, form: &str) -> Result<(Response, Secrets), Error> {
        let mut url = query::endpoint(&self.settings.url, kind.endpoint());
        let request = match self.settings.verb {
            Verb::Get => {
                let params = match url.query() {
                    Some(fixed) => format!("{fixed}&{form}"),
                    None => form.to_owned(),
                };
                url.set_query(Some(&params));
                self.client.get(url)
            }
            Verb::Post => self
                .client
                .post(url)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.to_owned()),
        };
        // The client decodes an answer by its header, even if it asked for no compression.
        let encoding = match self.settings.compression {
            Compression::None => "identity",
            Compression::Gzip => "gzip",
        };
        // Configured headers go last: one of them may replace `Authorization`.
        let (request, password) = authorize(&self.settings.auth, request).await?;
        let request = request
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, encoding)
            .headers(self.settings.headers.clone());
        let failed = |error| transport::failure(&self.address, self.settings.timeout, &error);
        let mut request = request.build().map_err(failed)?;
        let Some(authenticator) = &self.authenticator else {
            let secrets = Secrets::new(request.headers(), password);
            let sent = self.client.execute(request).await;
            return Ok((sent.map_err(failed)?, secrets));
        };
        let authorized = authenticator.authorize(&mut request).await;
        authorized.map_err(|why| unauthenticated(&self.address, &why))?;
        let secrets = Secrets::new(request.headers(), None);
        let response = self.client.execute(request).await.map_err(failed)?;
        if matches!(response.status().as_u16(), 401 | 403) {
            authenticator.refused().await;
        }
        Ok((response, secrets))
    }
}

/// The error if a request can get no signature or access token. `reason` has the remedy.
fn unauthenticated(address: &str, reason: &CloudAuthError) -> Error {
    let text = format!("no credentials: {reason}");
    Error::new(ErrorKind::Credentials, address, text).with_remedy("")
}
