//! The query endpoint of one Prometheus: address, authentication, limits on time and
//! size, and its error messages.

use std::sync::Arc;

use bytes::BytesMut;
use http::{StatusCode, header};
use reqwest::{Client, Response};
use tokio::time::Instant;

use crate::credentials::{Secrets, TlsMaterial, authorize};
use crate::decode::{DecodeError, Nan};
use crate::error::{Cause, Error, ErrorKind, skew_text};
use crate::query;
use crate::settings::{Compression, PrometheusSettings, Verb};
use apimachinery::condition::Condition;
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;

use super::budget::{Budget, Room};
use super::replicas::{Replica, Replicas, unauthenticated};
use super::skew::clock_skew;
use super::transport;

/// The largest accepted skew of the clocks. NTP keeps them within seconds; beyond half a
/// minute all samples would look stale, or stale ones would look fresh.
const MAX_SKEW_MS: i64 = 30_000;

/// Sends queries to the replicas of one Prometheus.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) settings: PrometheusSettings,
    pub(super) replicas: Arc<Replicas>,
    client: Client,
    material: TlsMaterial,
    /// Whether the changed certificate files can be used.
    condition: Condition<Error, ()>,
}

/// A reading of this server's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Timestamp,
    pub(super) read: Instant,
}

/// The purpose of a query, which decides its path and the memory for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The samples of a signal. The store's clock is compared with this one. The caller
    /// holds the room of the answer.
    Poll(Clock),
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

    /// The remedy for an answer that is too large.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Poll(_) => "raise prometheus.maxBodyBytes, or narrow prometheus.matchers",
            Self::Rule => "aggregate in the query, or select less",
            Self::Range => "select a shorter period, or raise prometheus.maxBodyBytes",
            Self::Series => "narrow the seriesQuery, or raise prometheus.maxBodyBytes",
        }
    }
}

/// Facts about an answer.
pub(super) struct Head {
    /// The store's clock minus this server's in milliseconds; `None`: no valid `Date`, or
    /// not compared.
    pub(super) clock_skew: Option<i64>,
    pub(super) nan: Nan,
    /// The address that answered. Another one may be in use since.
    address: String,
    /// Secrets that messages must not repeat.
    pub(super) secrets: Secrets,
    /// The memory of the answer, held until it is decoded.
    _room: Room,
}

impl Endpoint {
    pub(super) fn new(
        settings: PrometheusSettings,
        replicas: Arc<Replicas>,
    ) -> Result<Self, Error> {
        // reqwest uses the process's provider; installing it twice has no effect.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let material = TlsMaterial::read(&settings.tls)?;
        let client = transport::build(&settings, &material, &replicas.current().address)?;
        Ok(Self {
            settings,
            replicas,
            client,
            material,
            condition: Condition::default(),
        })
    }

    /// The memory for answers.
    pub(super) fn budget(&self) -> &Budget {
        &self.replicas.budget
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

    /// Sends a query with these parameters to one address after the other until one answers,
    /// and appends the answer's body to `text`.
    pub(super) async fn ask(
        &self,
        kind: Kind,
        form: &str,
        text: &mut BytesMut,
    ) -> Result<Head, Error> {
        let before = text.len();
        let mut attempts = self.replicas.attempts();
        loop {
            // Removes what another replica's answer left when it broke off.
            text.truncate(before);
            let said = self.ask_one(attempts.replica(), kind, form, text).await;
            if let Some(said) = attempts.record(said) {
                return said;
            }
        }
    }

    async fn ask_one(
        &self,
        replica: &Replica,
        kind: Kind,
        form: &str,
        text: &mut BytesMut,
    ) -> Result<Head, Error> {
        let asked = Instant::now();
        let (response, secrets) = self.send(replica, kind, form).await?;
        let clock_skew = match kind {
            Kind::Poll(clock) => {
                let now = clock.now + (asked - clock.read);
                clock_skew(response.headers(), now, asked.elapsed())
            }
            Kind::Rule | Kind::Range | Kind::Series => None,
        };
        // A store refuses a signature if its time is wrong, so this comes before the status.
        if let Some(skew_ms) = clock_skew.filter(|skew| skew.abs() > MAX_SKEW_MS) {
            let text = skew_text(skew_ms);
            return Err(Error::new(ErrorKind::ClockSkew, &replica.address, text));
        }
        if response.status() != StatusCode::OK {
            return Err(transport::refusal(&replica.address, response, &secrets).await);
        }
        // VictoriaMetrics names its host.
        let nan = match response.headers().contains_key("x-server-hostname") {
            true => Nan::StaleMarker,
            false => Nan::Value,
        };
        let budget = self.budget();
        // Prometheus has computed the answer; from here on it takes memory of this server.
        let (mut room, most) = match kind {
            Kind::Poll(_) => (Room::default(), budget.quarter()),
            Kind::Rule => (budget.rule(), budget.most_of_rule()),
            Kind::Range | Kind::Series => (budget.search().await, budget.quarter()),
        };
        let received = self.receive(replica, response, (text, &mut room), most);
        received.await.map_err(|error| match error.cause() {
            Cause::Size => error.with_remedy(kind.remedy()),
            _ => error,
        })?;
        Ok(Head {
            clock_skew,
            nan,
            address: replica.address.clone(),
            secrets,
            _room: room,
        })
    }

    /// Refuses an answer that cannot be used, or that has the engine's warnings. The next
    /// query then goes to another address.
    pub(super) fn whole(
        &self,
        decoded: Result<Vec<String>, DecodeError>,
        (body, head): (&[u8], &Head),
    ) -> Result<(), Error> {
        let warnings = self.usable(decoded, (body, head))?;
        if warnings.is_empty() {
            return Ok(());
        }
        let warnings = head.secrets.excerpt(&warnings.join("; "));
        let text = format!("refused an answer that may be partial: {warnings}");
        let error = Error::new(ErrorKind::Partial, &head.address, text);
        self.replicas.fail_over(&error);
        Err(error)
    }

    /// The decoded answer. If it cannot be used, the next query goes to another address.
    pub(super) fn usable<T>(
        &self,
        decoded: Result<T, DecodeError>,
        (body, head): (&[u8], &Head),
    ) -> Result<T, Error> {
        decoded
            .map_err(|error| self.unusable(error, (body, head)))
            .inspect_err(|error| self.replicas.fail_over(error))
    }

    fn unusable(&self, error: DecodeError, (body, head): (&[u8], &Head)) -> Error {
        let (address, secrets) = (&head.address, &head.secrets);
        let failed = |kind, text| Error::new(kind, address, text);
        let reason = secrets.excerpt(&error.to_string());
        match error {
            DecodeError::Truncated => {
                let len = body.len();
                let text = format!("the answer was cut off: {reason}, after {len} bytes");
                failed(ErrorKind::Truncated, text)
            }
            DecodeError::NotAnAnswer(_) => {
                let start = body.get(..transport::ERROR_BODY_BYTES).unwrap_or(body);
                let start = secrets.excerpt(&String::from_utf8_lossy(start));
                let text = format!("{reason}; the answer begins with {start:?}");
                failed(ErrorKind::NotAnAnswer, text)
            }
            DecodeError::TooLarge => larger(address, self.budget().quarter()),
            DecodeError::TooMany { remedy, .. } => {
                failed(ErrorKind::TooLarge, reason).with_remedy(remedy)
            }
            DecodeError::Status { error_type, error } => {
                Error::of_query(address, &error_type, &error, &reason)
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
            self.client =
                transport::build(&self.settings, &material, &self.replicas.current().address)?;
            self.material = material;
            Ok(())
        });
        let former = self.condition.set(renewed.err(), ());
        if let (Some(_), Some(error)) = (former, self.condition.state().reason()) {
            tracing::warn!(%error, "changed certificate files cannot be used; the former ones stay in use");
        }
    }

    async fn send(
        &self,
        replica: &Replica,
        kind: Kind,
        form: &str,
    ) -> Result<(Response, Secrets), Error> {
        let mut url = query::endpoint(&replica.url, kind.endpoint());
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
        let failed = |error| transport::failure(&replica.address, self.settings.timeout, &error);
        let mut request = request.build().map_err(failed)?;
        let Some(authenticator) = &self.replicas.authenticator else {
            let secrets = Secrets::new(request.headers(), password);
            let sent = self.client.execute(request).await;
            return Ok((sent.map_err(failed)?, secrets));
        };
        let authorized = authenticator.authorize(&mut request).await;
        authorized.map_err(|reason| unauthenticated(&replica.address, &reason))?;
        let secrets = Secrets::new(request.headers(), None);
        let response = self.client.execute(request).await.map_err(failed)?;
        if matches!(response.status().as_u16(), 401 | 403) {
            authenticator.refused();
        }
        Ok((response, secrets))
    }

    /// Appends the whole body to `text`. The limit applies to the total.
    async fn receive(
        &self,
        replica: &Replica,
        mut response: Response,
        (text, room): (&mut BytesMut, &mut Room),
        limit: usize,
    ) -> Result<(), Error> {
        let too_large = || larger(&replica.address, limit);
        let left = limit.saturating_sub(text.len());
        if response.content_length().is_some_and(|n| n > left as u64) {
            return Err(too_large());
        }
        let broken = |error| transport::failure(&replica.address, self.settings.timeout, &error);
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if text.len() + chunk.len() > limit {
                return Err(too_large());
            }
            if !room.grow(chunk.len()) {
                let text = "answers to other rules use all memory for answers";
                let remedy = "aggregate in their queries, or raise prometheus.maxBodyBytes";
                let error = Error::new(ErrorKind::TooLarge, &replica.address, text);
                return Err(error.with_remedy(remedy));
            }
            text.extend_from_slice(&chunk);
        }
        Ok(())
    }
}

/// The error of an answer that is larger than allowed.
fn larger(address: &str, limit: usize) -> Error {
    let text = format!("the answer is larger than {limit} bytes");
    Error::new(ErrorKind::TooLarge, address, text).because(Cause::Size)
}
