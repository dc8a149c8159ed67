//! Prometheus over HTTP: one query per signal and poll, the answer received
//! into reused memory under a size and a time limit.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header;
use reqwest::{Client, Response};
use tokio::time::Instant;
use url::Url;

use super::Fetched;
use super::credentials::{TlsMaterial, authorize};
use super::decode::{self, DecodeError, KeyHasher};
use super::error::{Error, excerpt};
use super::query::{self, Devices};
use crate::config::{Compression, PrometheusSettings, Verb};
use crate::core::batch::Batch;
use crate::core::signal::SignalSpec;
use crate::core::time::Timestamp;

/// The longest time for a connection and its handshakes; a network that needs
/// more would not deliver an answer in time either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How far the clocks may be apart. NTP keeps seconds; beyond half a minute
/// everything would look stale, or nothing ever would.
const MAX_SKEW_MS: i64 = 30_000;

/// How much of an error's body is read for its message.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// A Prometheus, or an engine that answers like one.
pub struct Prometheus {
    settings: PrometheusSettings,
    endpoint: Url,
    /// The endpoint for messages.
    address: String,
    hasher: KeyHasher,
    client: Client,
    material: TlsMaterial,
    /// The last complaint about changed certificate files, told once.
    complaint: Option<Error>,
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Prometheus {
    /// A client for `settings`. `hasher` must be the process's only one.
    ///
    /// # Errors
    /// When a certificate file cannot be used.
    pub fn new(settings: PrometheusSettings, hasher: KeyHasher) -> Result<Self, Error> {
        // reqwest takes the process's provider and has none of its own; a
        // second installation changes nothing.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let endpoint = query::endpoint(&settings.url);
        let mut shown = settings.url.clone();
        shown.set_query(None);
        let address = shown.as_str().trim_end_matches('/').to_owned();
        let material = TlsMaterial::read(&settings.tls)?;
        let client = build(&settings, &material, &address)?;
        Ok(Self {
            settings,
            endpoint,
            address,
            hasher,
            client,
            material,
            complaint: None,
        })
    }

    /// The address, without credentials and parameters.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks for the samples of `spec` in the `range` before `at` and puts them
    /// into `batch`. `now` is the time at which the call is made; the server's
    /// clock is compared with it.
    ///
    /// # Errors
    /// See [`Error`]; the batch then holds no series.
    pub async fn fetch(
        &mut self,
        spec: &SignalSpec,
        at: Timestamp,
        range: Duration,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        let selector = self.selector(spec, Devices::All, range);
        self.ask(spec, &selector, (at, now), batch).await
    }

    /// The same for the first device of each target alone.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    pub async fn fetch_sample(
        &mut self,
        spec: &SignalSpec,
        at: Timestamp,
        range: Duration,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        let selector = self.selector(spec, Devices::First, range);
        self.ask(spec, &selector, (at, now), batch).await
    }

    fn selector(&self, spec: &SignalSpec, devices: Devices, range: Duration) -> String {
        query::range_selector(spec, &self.settings.matchers, devices, range)
    }

    async fn ask(
        &mut self,
        spec: &SignalSpec,
        selector: &str,
        (at, now): (Timestamp, Timestamp),
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        let buffer = batch.take_text();
        batch.reset(spec.id, Bytes::new());
        self.renew().await;
        let form = query::form(selector, at, self.settings.timeout);
        let asked = Instant::now();
        let response = self.send(form).await?;
        let clock_skew = clock_skew(&response, now, asked.elapsed());
        if response.status() != reqwest::StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        if let Some(skew_ms) = clock_skew.filter(|skew| skew.abs() > MAX_SKEW_MS) {
            return Err(Error::ClockSkew {
                address: self.address.clone(),
                skew_ms,
            });
        }
        let body = self.receive(response, buffer).await?;
        let decoded = decode::decode(spec.id, &body, &self.hasher, batch)
            .map_err(|error| self.unusable(error, &body))?;
        if !decoded.warnings.is_empty() {
            batch.reset(spec.id, body);
            return Err(Error::Partial {
                address: self.address.clone(),
                warnings: excerpt(&decoded.warnings.join("; ")),
            });
        }
        Ok(Fetched {
            series: batch.series_len(),
            samples: batch.samples_len(),
            bytes: body.len(),
            skipped_histograms: decoded.skipped_histograms,
            clock_skew,
        })
    }

    /// Builds the client anew when a certificate file has changed. Files that
    /// cannot be used (a rotation half done) leave the old client in force.
    async fn renew(&mut self) {
        let read = TlsMaterial::read_again(&self.settings.tls).await;
        let renewed = read.and_then(|material| {
            if material == self.material {
                return Ok(());
            }
            self.client = build(&self.settings, &material, &self.address)?;
            self.material = material;
            Ok(())
        });
        let complaint = renewed.err();
        if let Some(error) = complaint.as_ref().filter(|_| complaint != self.complaint) {
            tracing::warn!(%error, "changed certificate files cannot be used, the former ones stay in force");
        }
        self.complaint = complaint;
    }

    async fn send(&self, form: String) -> Result<Response, Error> {
        let mut url = self.endpoint.clone();
        let request = match self.settings.verb {
            Verb::Get => {
                let params = match url.query() {
                    Some(fixed) => format!("{fixed}&{form}"),
                    None => form,
                };
                url.set_query(Some(&params));
                self.client.get(url)
            }
            Verb::Post => self
                .client
                .post(url)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form),
        };
        // An answer that comes packed all the same is unpacked by its header.
        let encoding = match self.settings.compression {
            Compression::None => "identity",
            Compression::Gzip => "gzip",
        };
        // Configured headers go last: one of them may replace `Authorization`.
        let request = authorize(&self.settings.auth, request)
            .await?
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, encoding)
            .headers(self.settings.headers.clone());
        request.send().await.map_err(|error| self.transport(&error))
    }

    /// The whole body, in the memory of `buffer` when nobody else uses it.
    async fn receive(&self, mut response: Response, buffer: Bytes) -> Result<Bytes, Error> {
        let limit = self.settings.max_body_bytes;
        let too_large = || Error::TooLarge {
            address: self.address.clone(),
            limit,
        };
        if response.content_length().is_some_and(|n| n > limit as u64) {
            return Err(too_large());
        }
        let mut body = buffer.try_into_mut().unwrap_or_else(|_| BytesMut::new());
        body.clear();
        while let Some(chunk) = self.chunk(&mut response).await? {
            if body.len() + chunk.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, Error> {
        response
            .chunk()
            .await
            .map_err(|error| self.transport(&error))
    }

    /// What an HTTP status other than 200 says.
    async fn refusal(&self, mut response: Response) -> Error {
        let status = response.status();
        let location = response.headers().get(header::LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let mut text = match location.and_then(|to| to.split(['?', '#']).next()) {
            Some(to) if status.is_redirection() => format!("redirected to {}", excerpt(to)),
            _ => String::new(),
        };
        if text.is_empty() {
            let mut body = Vec::new();
            // What has arrived is good enough for a message.
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() > ERROR_BODY_BYTES {
                    body.truncate(ERROR_BODY_BYTES);
                    break;
                }
            }
            text = match decode::api_error(&body) {
                Some((kind, error)) => format!("{kind}: {}", excerpt(&error)),
                None => excerpt(&String::from_utf8_lossy(&body)),
            };
        }
        if text.is_empty() {
            status
                .canonical_reason()
                .unwrap_or("no text")
                .clone_into(&mut text);
        }
        Error::Status {
            address: self.address.clone(),
            status: status.as_u16(),
            text,
        }
    }

    /// A failure below HTTP.
    fn transport(&self, error: &reqwest::Error) -> Error {
        let address = self.address.clone();
        if let Some(tls) = tls_error(error) {
            return Error::Tls {
                address,
                reason: tls.to_string(),
            };
        }
        if error.is_timeout() {
            let connecting = error.is_connect();
            let limit = self.settings.timeout;
            return Error::Timeout {
                address,
                limit: if connecting {
                    limit.min(CONNECT_TIMEOUT)
                } else {
                    limit
                },
            };
        }
        let reason = causes(error)
            .last()
            .map_or_else(String::new, ToString::to_string);
        if error.is_connect() {
            return Error::Unreachable { address, reason };
        }
        Error::Truncated { address, reason }
    }

    /// A body that is no usable answer.
    fn unusable(&self, error: DecodeError, body: &[u8]) -> Error {
        let address = self.address.clone();
        let reason = error.to_string();
        match error {
            DecodeError::Truncated => Error::Truncated {
                address,
                reason: format!("{reason}, after {} bytes", body.len()),
            },
            DecodeError::NotJson(_) | DecodeError::Shape(_) | DecodeError::ResultType(_) => {
                let start = body.get(..ERROR_BODY_BYTES).unwrap_or(body);
                Error::NotAnAnswer {
                    address,
                    reason,
                    excerpt: excerpt(&String::from_utf8_lossy(start)),
                }
            }
            DecodeError::Null(_) => Error::NullData { address, reason },
            DecodeError::Status { error_type, error } => Error::Query {
                address,
                error_type: excerpt(&error_type),
                error: excerpt(&error),
            },
        }
    }
}

/// A client under the settings' limits that follows no redirect: one could
/// lead credentials elsewhere.
fn build(
    settings: &PrometheusSettings,
    material: &TlsMaterial,
    address: &str,
) -> Result<Client, Error> {
    let builder = Client::builder()
        .user_agent(concat!("gpu-metrics-apiserver/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(settings.timeout)
        .connect_timeout(settings.timeout.min(CONNECT_TIMEOUT));
    let secure = settings.url.scheme() == "https";
    material
        .apply(&settings.tls, secure, builder)?
        .build()
        .map_err(|error| Error::Tls {
            address: address.to_owned(),
            reason: causes(&error)
                .last()
                .map_or_else(String::new, ToString::to_string),
        })
}

/// An error and what caused it, outermost first. The cause inside an
/// [`std::io::Error`] is its content, which `source` steps over.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// The server's clock minus ours, in milliseconds, from the `Date` header. The
/// header names a whole second and some moment of the request: of the skews
/// that are possible the smallest is taken.
fn clock_skew(response: &Response, now: Timestamp, elapsed: Duration) -> Option<i64> {
    let header = |name| response.headers().get(name)?.to_str().ok();
    let date = header(header::DATE)?;
    let date = jiff::fmt::rfc2822::parse(date)
        .ok()?
        .timestamp()
        .as_second();
    // A cache says how long it has kept the answer.
    let age = header(header::AGE)
        .and_then(|age| age.parse().ok())
        .unwrap_or(0);
    Some(skew(date.checked_add(age)?, now, elapsed))
}

fn skew(date_secs: i64, now: Timestamp, elapsed: Duration) -> i64 {
    let date = Timestamp::from_secs(date_secs).millis();
    let earliest = date.saturating_sub((now + elapsed).millis());
    let latest = date.saturating_add(999).saturating_sub(now.millis());
    if earliest > 0 {
        earliest
    } else {
        latest.min(0)
    }
}

#[cfg(test)]
mod tests;
