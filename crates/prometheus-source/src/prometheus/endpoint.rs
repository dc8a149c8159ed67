//! The query endpoint of one Prometheus: address, authentication, limits on time and
//! size, and its error messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::{StatusCode, header};
use reqwest::{Client, Response};
use tokio::time::Instant;
use url::Url;

use crate::credentials::{Secrets, TlsMaterial, authorize};
use crate::decode::DecodeError;
use crate::error::{Cause, Error, ErrorKind, skew_text};
use crate::query;
use crate::settings::{Compression, PrometheusSettings, Verb};
use apimachinery::condition::Condition;
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

/// Facts about an answer.
pub(super) struct Head {
    /// The store's clock minus this server's in milliseconds; `None`: no valid `Date`.
    pub(super) clock_skew: Option<i64>,
    /// Whether VictoriaMetrics answered.
    pub(super) victoria_metrics: bool,
    pub(super) origin: Origin,
}

/// What a message about an answer needs.
pub(super) struct Origin {
    /// The address that answered. Another one may be in use since.
    address: String,
    /// Secrets that messages must not repeat.
    pub(super) secrets: Secrets,
}

impl Origin {
    fn new(replica: &Replica, secrets: Secrets) -> Self {
        let address = replica.address.clone();
        Self { address, secrets }
    }
}

/// The purpose of a query that is not a poll.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A rule's value at a time.
    Rule,
    /// The series that exist, or their values over a time range.
    Search,
}

/// An answer, undecoded.
pub(super) struct Body {
    pub(super) text: BytesMut,
    pub(super) origin: Origin,
    /// Held until the body is decoded.
    pub(super) room: Room,
}

impl Body {
    pub(super) fn parts(&self) -> (&[u8], &Origin) {
        (&self.text, &self.origin)
    }
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

    /// Sends one query as of `at`, and appends the answer's body to `text`. `now` is
    /// the time of the call. The caller holds the room of a poll.
    pub(super) async fn ask(
        &self,
        selector: &str,
        at: Timestamp,
        now: Timestamp,
        text: &mut BytesMut,
    ) -> Result<Head, Error> {
        let (begun, before) = (Instant::now(), text.len());
        let form = query::form(selector, at, self.settings.timeout);
        let mut attempts = self.replicas.attempts();
        loop {
            // Removes what another replica's answer left when it broke off.
            text.truncate(before);
            let now = now + begun.elapsed();
            let said = self.ask_one(attempts.replica(), &form, now, text).await;
            if let Some(said) = attempts.record(said) {
                return said;
            }
        }
    }

    async fn ask_one(
        &self,
        replica: &Replica,
        form: &str,
        now: Timestamp,
        text: &mut BytesMut,
    ) -> Result<Head, Error> {
        let asked = Instant::now();
        let (response, secrets) = self.send(replica, &replica.url, form).await?;
        let clock_skew = clock_skew(response.headers(), now, asked.elapsed());
        let is_ok = response.status() == StatusCode::OK;
        // A store refuses a signature if its time is wrong: the skew explains this.
        let may_tell = is_ok || self.replicas.authenticator.is_some();
        if let Some(skew_ms) = clock_skew.filter(|skew| may_tell && skew.abs() > MAX_SKEW_MS) {
            let text = skew_text(skew_ms);
            return Err(Error::new(ErrorKind::ClockSkew, &replica.address, text));
        }
        if !is_ok {
            return Err(transport::refusal(&replica.address, response, &secrets).await);
        }
        let head = Head {
            clock_skew,
            victoria_metrics: response.headers().contains_key("x-server-hostname"),
            origin: Origin::new(replica, secrets),
        };
        let (room, most) = (&mut Room::default(), self.budget().quarter());
        self.receive(replica, response, (text, room), most).await?;
        Ok(head)
    }

    /// The undecoded answer to any query as of `at`.
    pub(super) async fn instant(&self, promql: &str, at: Timestamp) -> Result<Body, Error> {
        let form = query::form(promql, at, self.settings.timeout);
        let remedy = "aggregate in the query, or select less";
        self.body(|replica| &replica.url, &form, (Kind::Rule, remedy))
            .await
    }

    /// The undecoded answer to any query over a time, including both ends.
    pub(super) async fn range(
        &self,
        promql: &str,
        over: [Timestamp; 2],
        step: Duration,
    ) -> Result<Body, Error> {
        let form = query::range_form(promql, over, step, self.settings.timeout);
        let remedy = "select a shorter period, or raise prometheus.maxBodyBytes";
        let kind = (Kind::Search, remedy);
        self.body(|replica| &replica.range_url, &form, kind).await
    }

    /// The undecoded series that a selector matches from `start` on.
    pub(super) async fn series(&self, selector: &str, start: Timestamp) -> Result<Body, Error> {
        let form = query::series_form(selector, start);
        let remedy = "narrow the seriesQuery, or raise prometheus.maxBodyBytes";
        let kind = (Kind::Search, remedy);
        self.body(|replica| &replica.series_url, &form, kind).await
    }

    async fn body(
        &self,
        url: fn(&Replica) -> &Url,
        form: &str,
        kind: (Kind, &'static str),
    ) -> Result<Body, Error> {
        let mut attempts = self.replicas.attempts();
        loop {
            let said = self.body_of(attempts.replica(), url, form, kind).await;
            if let Some(said) = attempts.record(said) {
                return said;
            }
        }
    }

    async fn body_of(
        &self,
        replica: &Replica,
        url: fn(&Replica) -> &Url,
        form: &str,
        (kind, remedy): (Kind, &'static str),
    ) -> Result<Body, Error> {
        let (response, secrets) = self.send(replica, url(replica), form).await?;
        if response.status() != StatusCode::OK {
            return Err(transport::refusal(&replica.address, response, &secrets).await);
        }
        let budget = self.budget();
        // Prometheus has computed the answer; from here on it takes memory of this server.
        let (mut room, most) = match kind {
            Kind::Search => (budget.search().await, budget.quarter()),
            Kind::Rule => (budget.rule(), budget.most_of_rule()),
        };
        let mut text = BytesMut::new();
        let into = (&mut text, &mut room);
        let received = self.receive(replica, response, into, most).await;
        received.map_err(|error| match error.cause() {
            Cause::Size => error.with_remedy(remedy),
            _ => error,
        })?;
        Ok(Body {
            text,
            origin: Origin::new(replica, secrets),
            room,
        })
    }

    /// Refuses an answer that cannot be used, or that has the engine's warnings.
    pub(super) fn whole(
        &self,
        decoded: Result<Vec<String>, DecodeError>,
        (body, origin): (&[u8], &Origin),
    ) -> Result<(), Error> {
        let warnings = decoded.map_err(|error| self.unusable(error, (body, origin)))?;
        if warnings.is_empty() {
            return Ok(());
        }
        let warnings = origin.secrets.excerpt(&warnings.join("; "));
        let text = format!("refused an answer that may be partial: {warnings}");
        Err(Error::new(ErrorKind::Partial, &origin.address, text))
    }

    /// The error for a body that is no usable answer.
    pub(super) fn unusable(&self, error: DecodeError, (body, origin): (&[u8], &Origin)) -> Error {
        let Origin { address, secrets } = origin;
        let failed = |kind, text| Error::new(kind, address, text);
        let reason = secrets.excerpt(&error.to_string());
        match error {
            DecodeError::Truncated => {
                let text = format!(
                    "the answer was cut off: {reason}, after {} bytes",
                    body.len()
                );
                failed(ErrorKind::Truncated, text)
            }
            DecodeError::NotJson(_) | DecodeError::Shape(_) | DecodeError::ResultType(_) => {
                let start = body.get(..transport::ERROR_BODY_BYTES).unwrap_or(body);
                let start = secrets.excerpt(&String::from_utf8_lossy(start));
                let text = format!("{reason}; the answer begins with {start:?}");
                failed(ErrorKind::NotAnAnswer, text)
            }
            DecodeError::TooLarge => larger(address, self.budget().quarter()),
            DecodeError::TooMany { remedy, .. } => {
                failed(ErrorKind::TooLarge, reason).with_remedy(remedy)
            }
            DecodeError::Null(_) => failed(ErrorKind::NullData, reason),
            DecodeError::Status { error_type, error } => {
                failed(ErrorKind::Query, format!("the query failed: {reason}"))
                    .because(Cause::of_query(&error_type, &error))
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
        url: &Url,
        form: &str,
    ) -> Result<(Response, Secrets), Error> {
        let mut url = url.clone();
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
