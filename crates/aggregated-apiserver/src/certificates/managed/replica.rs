//! One of several replicas that share a Secret and APIServices.

use std::time::SystemTime;

use super::content::{self, Content, FoundContent};
use super::decide::{Reason, decide, trusted_everywhere};
use super::registration::{Plan, is_ours, plan};
use super::settings::ManagedSettings;
use super::store::{CertificateStore, Entry, WriteError};
use crate::certificates::{Publisher, Registration, Trouble};

pub(super) struct Replica<S> {
    settings: ManagedSettings,
    store: S,
    publisher: Publisher,
    /// The content of the Secret at the last read or write.
    memory: Option<Content>,
    registrations: Vec<(String, Registration)>,
}

type Read = Result<Option<Entry>, Trouble>;

impl<S: CertificateStore> Replica<S> {
    pub(super) const fn new(settings: ManagedSettings, store: S, publisher: Publisher) -> Self {
        Self {
            registrations: Vec::new(),
            settings,
            store,
            publisher,
            memory: None,
        }
    }

    /// Makes a pass. Returns whether the next one is due soon: something was written, or
    /// another replica wrote first.
    ///
    /// The APIServices are read before the Secret. A write therefore never replaces a
    /// bundle that is newer than the Secret from which the new one is made. An authority
    /// that was in all bundles stays in all of them.
    pub(super) async fn pass(&mut self, now: SystemTime) -> bool {
        self.look_after(self.settings.names());
        let mut read: Vec<Read> = Vec::new();
        for (name, _) in &self.registrations {
            read.push(self.store.apiservice(name).await);
        }
        let bundles = self.bundles(&read);
        let kept = match self.keep_secret(&bundles, now).await {
            Ok(wrote) => Ok(wrote),
            Err(WriteError::Conflict) => return true,
            Err(WriteError::Failed(trouble)) => Err(trouble),
        };
        let contended = match self.memory.clone() {
            Some(known) => self.register(read, &known, now).await,
            None => false,
        };
        match &kept {
            Err(trouble) => self.publisher.failing(trouble),
            Ok(_) if contended => {}
            Ok(_) => self.adopt(&bundles, now),
        }
        contended || kept.unwrap_or(false)
    }

    /// Sets the managed APIServices. Those managed before keep their state.
    fn look_after(&mut self, names: Vec<String>) {
        let before = std::mem::take(&mut self.registrations);
        let of = |name: String| {
            let known = before.iter().find(|(known, _)| *known == name);
            known.cloned().unwrap_or((name, Registration::Waiting))
        };
        self.registrations = names.into_iter().map(of).collect();
    }

    /// The bundles of the server's APIServices. An APIService that cannot be read counts as
    /// an empty bundle, because the content of its bundle is unknown.
    fn bundles(&self, read: &[Read]) -> Vec<Vec<u8>> {
        let ours = read.iter().filter_map(|read| match read {
            Err(_) => Some(Vec::new()),
            Ok(Some(entry)) if is_ours(&self.settings, entry) => Some(entry.bundle.clone()),
            Ok(_) => None,
        });
        ours.collect()
    }

    /// Reads the Secret and repairs it; returns whether it was written.
    async fn keep_secret(
        &mut self,
        bundles: &[Vec<u8>],
        now: SystemTime,
    ) -> Result<bool, WriteError> {
        let place = self.store.place();
        let stored = self.store.secret().await.map_err(WriteError::Failed)?;
        let found = content::read(&stored.data);
        let step = decide(found, self.memory.as_ref(), (&self.settings, bundles), now);
        let (content, reason) = step
            .map_err(|error| WriteError::Failed(Trouble::lasting(format!("{place}: {error}"))))?;
        let Some(Reason { text, alarming }) = reason else {
            self.memory = Some(content);
            return Ok(false);
        };
        let written = self
            .store
            .write_secret(&stored.version, &content.data(now))
            .await;
        if let Err(error) = written {
            // The stored content is served as long as it is valid.
            if let (WriteError::Failed(_), FoundContent::Whole(content)) =
                (&error, content::read(&stored.data))
            {
                self.memory = Some(content);
            }
            return Err(error);
        }
        if alarming {
            tracing::warn!("{place}: {text}");
        } else {
            tracing::info!("{place}: {text}");
        }
        self.memory = Some(content);
        Ok(true)
    }

    /// Repairs the APIServices. Returns whether a write conflicted.
    async fn register(&mut self, read: Vec<Read>, known: &Content, now: SystemTime) -> bool {
        let mut contended = false;
        let mut registrations = self.registrations.clone();
        for ((name, registration), read) in registrations.iter_mut().zip(read) {
            match self.mend(name, read, known, now).await {
                Ok(now) => *registration = now,
                Err(WriteError::Conflict) => contended = true,
                // During an outage of kube-apiserver the last known state stays.
                Err(WriteError::Failed(trouble))
                    if trouble.passes && *registration != Registration::Waiting => {}
                Err(WriteError::Failed(trouble)) => {
                    *registration = Registration::Failing(trouble.to_string());
                }
            }
        }
        self.publisher.registrations(&registrations);
        self.registrations = registrations;
        contended
    }

    async fn mend(
        &self,
        name: &str,
        read: Read,
        known: &Content,
        now: SystemTime,
    ) -> Result<Registration, WriteError> {
        let entry = read.map_err(WriteError::Failed)?;
        let authorities = &known.authorities;
        match plan(&self.settings, name, entry.as_ref(), authorities, now) {
            Plan::Leave(registration) => Ok(registration),
            Plan::Write(change) => {
                self.store.write_apiservice(name, &change).await?;
                Ok(Registration::Registered)
            }
        }
    }

    /// Puts the Secret's pair into force, if kube-apiserver trusts it.
    fn adopt(&self, bundles: &[Vec<u8>], now: SystemTime) {
        let Some(known) = &self.memory else { return };
        let pair = &known.pair;
        if let Err(error) = pair.check(now) {
            let place = self.store.place();
            let trouble = Trouble::lasting(format!("{place}: {error}"));
            self.publisher.failing(&trouble);
            return;
        }
        if self.publisher.serves(pair) {
            self.publisher.well();
            return;
        }
        // A replica without a valid certificate uses the pair at once: it has just written
        // the bundles. The others wait for the next pass, which reads the bundles back,
        // because kube-apiserver has received them by then.
        let served = self.publisher.pair();
        let nothing_to_lose = served.is_none_or(|it| it.check(now).is_err());
        if nothing_to_lose || trusted_everywhere(bundles, known.signer()) {
            self.publisher.serve(pair);
        } else {
            self.publisher.failing(&Trouble {
                passes: true,
                ..Trouble::lasting(
                    "a new serving certificate is not used until the APIServices trust its authority"
                        .to_owned(),
                )
            });
        }
    }
}
