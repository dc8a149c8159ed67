//! One of several replicas that share a Secret and APIServices.

use std::time::SystemTime;

use super::content::{Authorities, Content, anchors};
use super::decide::{Reason, decide, joined};
use super::registration::{is_ours, plan};
use super::settings::{ManagedSettings, service_names};
use super::store::{CertificateStore, Entry, WriteError};
use crate::certificates::pair::Pair;
use crate::certificates::{Publisher, Registration, Trouble};

pub(super) struct Replica<S> {
    settings: ManagedSettings,
    store: S,
    publisher: Publisher,
    /// The authorities of the Secret at its last read or write.
    known: Option<Authorities>,
}

type Read = Result<Option<Entry>, Trouble>;

impl<S: CertificateStore> Replica<S> {
    pub(super) fn new(settings: ManagedSettings, store: S, publisher: Publisher) -> Self {
        let waiting = |name| (name, Registration::Waiting);
        publisher.register(settings.names().into_iter().map(waiting).collect());
        Self {
            settings,
            store,
            publisher,
            known: None,
        }
    }

    /// Makes a pass. Returns whether the next one is due soon: something was written, or
    /// another replica wrote first.
    ///
    /// The APIServices are read before the Secret. A write therefore never replaces a
    /// bundle that is newer than the Secret from which the new one is made. An authority
    /// that was in all bundles stays in all of them. While the Secret cannot be read or
    /// written, the bundles are repaired with the authorities read before.
    pub(super) async fn pass(&mut self, now: SystemTime) -> bool {
        let mut read = Vec::new();
        for name in self.settings.names() {
            let entry = self.store.apiservice(&name).await;
            read.push((name, entry));
        }
        let bundles = self.bundles(&read);
        let kept = match self.keep_secret(&bundles, now).await {
            Err(WriteError::Conflict) => return true,
            Err(WriteError::Failed(trouble)) => Err(trouble),
            Ok(kept) => Ok(kept),
        };
        let contended = match self.known.clone() {
            Some(known) => self.register(read, &known, now).await,
            None => false,
        };
        match kept {
            Err(trouble) => {
                self.publisher.failing(&trouble);
                contended
            }
            Ok(_) if contended => true,
            Ok((content, wrote)) => {
                self.adopt(content, &bundles, now);
                wrote
            }
        }
    }

    /// The bundles of the server's APIServices. An APIService that cannot be read counts as
    /// an empty bundle, because the content of its bundle is unknown.
    fn bundles(&self, read: &[(String, Read)]) -> Vec<Vec<u8>> {
        let ours = read.iter().filter_map(|(_, read)| match read {
            Err(_) => Some(Vec::new()),
            Ok(Some(entry)) if is_ours(&self.settings, entry) => Some(entry.bundle.clone()),
            Ok(_) => None,
        });
        ours.collect()
    }

    /// Reads the Secret and repairs it; returns its content, and whether it was written.
    async fn keep_secret(
        &mut self,
        bundles: &[Vec<u8>],
        now: SystemTime,
    ) -> Result<(Content, bool), WriteError> {
        let place = self.store.place();
        let (version, stored) = self.store.secret().await.map_err(WriteError::Failed)?;
        self.known = Authorities::read(&stored).ok().or(self.known.take());
        let found = (self.known.as_ref(), bundles);
        let (content, reason) = decide(&stored, found, &self.settings, now)
            .map_err(|error| WriteError::Failed(Trouble::lasting(format!("{place}: {error}"))))?;
        let Some(reason) = reason else {
            return Ok((content, false));
        };
        let data = content.data(now);
        self.store.write_secret(&version, &data).await?;
        self.known = Some(content.authorities.clone());
        match reason {
            Reason::Usual(text) => tracing::info!("{place}: {text}"),
            Reason::Alarming(text) => tracing::warn!("{place}: {text}"),
        }
        Ok((content, true))
    }

    /// Repairs the APIServices. Returns whether a write conflicted.
    async fn register(
        &self,
        read: Vec<(String, Read)>,
        known: &Authorities,
        now: SystemTime,
    ) -> bool {
        let (mut contended, mut registrations) = (false, Vec::new());
        let before = self.publisher.registrations();
        for (name, read) in read {
            let known_state = before.iter().find(|(known, _)| *known == name);
            let before = known_state.map_or(Registration::Waiting, |(_, it)| it.clone());
            let state = match self.mend(&name, read, known, now).await {
                Ok(state) => state,
                Err(WriteError::Conflict) => {
                    contended = true;
                    before
                }
                // During an outage of kube-apiserver the last known state stays.
                Err(WriteError::Failed(trouble))
                    if trouble.passes && before != Registration::Waiting =>
                {
                    before
                }
                Err(WriteError::Failed(trouble)) => Registration::Failing(trouble.to_string()),
            };
            registrations.push((name, state));
        }
        self.publisher.register(registrations);
        contended
    }

    /// Repairs an APIService; returns its state.
    async fn mend(
        &self,
        name: &str,
        read: Read,
        known: &Authorities,
        now: SystemTime,
    ) -> Result<Registration, WriteError> {
        let entry = read.map_err(WriteError::Failed)?;
        match plan(&self.settings, name, entry.as_ref(), known, now) {
            Err(why) => Ok(Registration::Failing(why)),
            Ok(None) => Ok(Registration::Registered),
            Ok(Some(change)) => {
                self.store.write_apiservice(name, &change).await?;
                Ok(Registration::Registered)
            }
        }
    }

    /// Puts the Secret's pair into force. It replaces a valid one that the bundles trust only
    /// if they trust it too and the newest authority is a day old. A replica without a valid
    /// pair uses it at once: it has just written the bundles.
    fn adopt(&self, Content { authorities, pair }: Content, bundles: &[Vec<u8>], now: SystemTime) {
        if let Err(error) = pair.check(now) {
            let place = self.store.place();
            let trouble = Trouble::lasting(format!("{place}: {error}"));
            self.publisher.failing(&trouble);
            return;
        }
        let is_trusted = |pair: &Pair| self.is_trusted(pair, bundles, now);
        let served = self.publisher.pair();
        let served = served.filter(|served| served.check(now).is_ok());
        match served {
            _ if self.publisher.serves(&pair) => self.publisher.well(),
            Some(_) if !is_trusted(&pair) => self.publisher.failing(&Trouble {
                passes: true,
                ..Trouble::lasting(
                    "a new serving certificate is not used until the APIServices trust its authority"
                        .to_owned(),
                )
            }),
            Some(served) if now < joined(&authorities) && is_trusted(&served) => {
                self.publisher.well();
            }
            _ => self.publisher.serve(pair),
        }
    }

    fn is_trusted(&self, pair: &Pair, bundles: &[Vec<u8>], now: SystemTime) -> bool {
        let [name, ..] = service_names(&self.settings.service);
        bundles.iter().all(|pem| {
            let trusted = anchors(pem);
            trusted.is_ok_and(|trusted| pair.verify(&trusted, &name, now).is_ok())
        })
    }
}
