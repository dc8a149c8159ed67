//! The query endpoint of one Prometheus: its address, how we identify
//! ourselves, limits on time and size, and what its refusals say.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use reqwest::{Client, Response};
use tokio::time::Instant;
use url::Url;

use crate::config::{Compression, PrometheusSettings, Verb};
use crate::core::duration::format_duration;
use crate::core::time::Timestamp;
use crate::source::credentials::{TlsMaterial, authorize};
use crate::source::error::{Cause, Error, excerpt};
use crate::source::{decode, query};

/// The longest time for a connection and its handshakes; a network that needs
/// more would not deliver an answer in time either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How far the clocks may be apart. NTP keeps seconds; beyond half a minute
/// everything would look stale, or nothing ever would.
const MAX_SKEW_MS: i64 = 30_000;

/// How much of an error's body is read for its message.
pub(super) const ERROR_BODY_BYTES: usize = 64 << 10;

/// Where queries go.
pub(super) struct Endpoint {
    pub(super) settings: PrometheusSettings,
    url: Url,
    series_url: Url,
    /// The address for messages: without credentials and parameters.
    pub(super) address: String,
    client: Client,
    material: TlsMaterial,
    /// The last complaint about changed certificate files, told once.
    complaint: Option<Error>,
}

/// What came with an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The server's clock minus ours in milliseconds, where it says its time.
    pub(super) clock_skew: Option<i64>,
    /// Whether VictoriaMetrics answered.
    pub(super) victoria_metrics: bool,
}

impl Endpoint {
    pub(super) fn new(settings: PrometheusSettings) -> Result<Self, Error> {
        // reqwest takes the process's provider and has none of its own; a
        // second installation changes nothing.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let url = query::endpoint(&settings.url, "query");
        let series_url = query::endpoint(&settings.url, "series");
        let mut shown = settings.url.clone();
        shown.set_query(None);
        let address = shown.as_str().trim_end_matches('/').to_owned();
        let material = TlsMaterial::read(&settings.tls)?;
        let client = build(&settings, &material, &address)?;
        Ok(Self {
            settings,
            url,
            series_url,
            address,
            client,
            material,
            complaint: None,
        })
    }

    /// Asks one query as of `at` and puts the answer's body behind what `text`
    /// holds. `now` is the time at which the call is made.
    pub(super) async fn ask(
        &self,
        selector: &str,
        at: Timestamp,
        now: Timestamp,
        text: &mut BytesMut,
    ) -> Result<Head, Error> {
        let asked = Instant::now();
        let form = query::form(selector, at, self.settings.timeout);
        let response = self.send(self.url.clone(), form).await?;
        let clock_skew = clock_skew(response.headers(), now, asked.elapsed());
        if response.status() != reqwest::StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        if let Some(skew_ms) = clock_skew.filter(|skew| skew.abs() > MAX_SKEW_MS) {
            return Err(Error::ClockSkew {
                address: self.address.clone(),
                skew_ms,
            });
        }
        let head = Head {
            clock_skew,
            victoria_metrics: response.headers().contains_key("x-server-hostname"),
        };
        self.receive(response, text).await?;
        Ok(head)
    }

    /// The answer to any query as of `at`, undecoded.
    pub(super) async fn instant(&self, promql: &str, at: Timestamp) -> Result<BytesMut, Error> {
        let form = query::form(promql, at, self.settings.timeout);
        self.body(self.url.clone(), form).await
    }

    /// The series that a selector finds from `start` on, undecoded.
    pub(super) async fn series(&self, selector: &str, start: Timestamp) -> Result<BytesMut, Error> {
        let form = query::series_form(selector, start);
        self.body(self.series_url.clone(), form).await
    }

    async fn body(&self, url: Url, form: String) -> Result<BytesMut, Error> {
        let response = self.send(url, form).await?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let mut text = BytesMut::new();
        self.receive(response, &mut text).await?;
        Ok(text)
    }

    /// Builds the client anew when a certificate file has changed. Files that
    /// cannot be used (a rotation half done) leave the old client in force.
    pub(super) async fn renew(&mut self) {
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

    async fn send(&self, mut url: Url, form: String) -> Result<Response, Error> {
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

    /// The whole body, behind what `text` holds; the limit is on both.
    async fn receive(&self, mut response: Response, text: &mut BytesMut) -> Result<(), Error> {
        let limit = self.settings.max_body_bytes;
        let too_large = || Error::TooLarge {
            address: self.address.clone(),
            limit,
        };
        let room = limit.saturating_sub(text.len());
        if response.content_length().is_some_and(|n| n > room as u64) {
            return Err(too_large());
        }
        while let Some(chunk) = self.chunk(&mut response).await? {
            if text.len() + chunk.len() > limit {
                return Err(too_large());
            }
            text.extend_from_slice(&chunk);
        }
        Ok(())
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
                Some((kind, error)) => format!("{kind}: {error}"),
                None => String::from_utf8_lossy(&body).into_owned(),
            };
        }
        let cause = Cause::of(status.as_u16(), &text);
        text = excerpt(&text);
        if text.is_empty() {
            status
                .canonical_reason()
                .unwrap_or("no text")
                .clone_into(&mut text);
        }
        Error::Status {
            address: self.address.clone(),
            status: status.as_u16(),
            cause,
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
        let limit = self.settings.timeout;
        if error.is_timeout() && error.is_connect() {
            let limit = format_duration(limit.min(CONNECT_TIMEOUT));
            let reason = format!("not within {limit}");
            return Error::Unreachable { address, reason };
        }
        if error.is_timeout() {
            return Error::Timeout { address, limit };
        }
        let reason = causes(error)
            .last()
            .map_or_else(String::new, ToString::to_string);
        if error.is_connect() {
            return Error::Unreachable { address, reason };
        }
        Error::Truncated { address, reason }
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
fn clock_skew(headers: &HeaderMap, now: Timestamp, elapsed: Duration) -> Option<i64> {
    let header = |name| headers.get(name)?.to_str().ok();
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

pub(super) fn skew(date_secs: i64, now: Timestamp, elapsed: Duration) -> i64 {
    let date = Timestamp::from_secs(date_secs).millis();
    let earliest = date.saturating_sub((now + elapsed).millis());
    let latest = date.saturating_add(999).saturating_sub(now.millis());
    if earliest > 0 {
        earliest
    } else {
        latest.min(0)
    }
}
