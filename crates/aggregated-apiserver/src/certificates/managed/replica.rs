//! One of several replicas that share a Secret and APIServices.

use std::time::SystemTime;

use super::content::{Authorities, Content, anchors};
use super::decide::{Reason, decide};
use super::registration::{is_ours, plan};
use super::settings::{JOINING, ManagedSettings, SKEW, service_names};
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
    /// another replica wrote first. The next pass reads it back, before the pair is used.
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
        let kept = match self.keep_secret(now).await {
            Err(WriteError::Conflict) => return true,
            Err(WriteError::Failed(trouble)) => Err(trouble),
            Ok(kept) => Ok(kept),
        };
        let mut soon = kept.as_ref().is_ok_and(|(_, wrote)| *wrote);
        if let Some(known) = &self.known {
            soon |= self.register(read, known, now).await;
        }
        match kept {
            Err(trouble) => self.publisher.failing(&trouble),
            Ok((content, _)) if !soon => self.adopt(content, &bundles, now),
            Ok(_) => {}
        }
        soon
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
    async fn keep_secret(&mut self, now: SystemTime) -> Result<(Content, bool), WriteError> {
        let place = self.store.place();
        let (version, stored) = self.store.secret().await.map_err(WriteError::Failed)?;
        self.known = Authorities::read(&stored).ok().or(self.known.take());
        let (content, reason) = decide(&stored, &self.settings, now)
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

    /// Repairs the APIServices. Returns whether one was written, or a write conflicted.
    async fn register(
        &self,
        read: Vec<(String, Read)>,
        known: &Authorities,
        now: SystemTime,
    ) -> bool {
        let (mut soon, mut registrations) = (false, Vec::new());
        let before = self.publisher.registrations();
        for (name, read) in read {
            let known_state = before.iter().find(|(known, _)| *known == name);
            let before = known_state.map_or(Registration::Waiting, |(_, it)| it.clone());
            let state = match self.mend(&name, read, known, now).await {
                Ok((state, wrote)) => {
                    soon |= wrote;
                    state
                }
                Err(WriteError::Conflict) => {
                    soon = true;
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
        soon
    }

    /// Repairs an APIService; returns its state, and whether it was written.
    async fn mend(
        &self,
        name: &str,
        read: Read,
        known: &Authorities,
        now: SystemTime,
    ) -> Result<(Registration, bool), WriteError> {
        let entry = read.map_err(WriteError::Failed)?;
        match plan(&self.settings, name, entry.as_ref(), known, now) {
            Err(why) => Ok((Registration::Failing(why), false)),
            Ok(None) => Ok((Registration::Registered, false)),
            Ok(Some(change)) => {
                self.store.write_apiservice(name, &change).await?;
                Ok((Registration::Registered, true))
            }
        }
    }

    /// Puts the Secret's pair into force, if kube-apiserver trusts it or there is no valid one.
    /// kube-apiserver reads the APIServices a little later than this replica, so it trusts a
    /// pair if its authority is in all bundles and old enough.
    fn adopt(&self, Content { authorities, pair }: Content, bundles: &[Vec<u8>], now: SystemTime) {
        let served = self.publisher.pair();
        let joined = authorities.current.anchor().validity.not_before + SKEW + JOINING;
        if let Err(error) = pair.check(now) {
            let place = self.store.place();
            let trouble = Trouble::lasting(format!("{place}: {error}"));
            self.publisher.failing(&trouble);
        } else if self.publisher.serves(&pair) {
            self.publisher.well();
        } else if served.is_none_or(|it| it.check(now).is_err()) {
            self.publisher.serve(pair);
        } else if !self.is_trusted(&pair, bundles, now) {
            self.publisher.failing(&Trouble {
                passes: true,
                ..Trouble::lasting(
                    "a new serving certificate is not used until the APIServices trust its authority"
                        .to_owned(),
                )
            });
        } else if now < joined {
            self.publisher.well();
        } else {
            self.publisher.serve(pair);
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
