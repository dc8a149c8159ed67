//! One of several replicas that share an authority and APIServices.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;

use super::registration::plan;
use super::store::{CA_CERTIFICATE, CA_KEY, CertificateStore, SecretData};
use super::{ManagedSettings, service_names};
use crate::certificates::authority::{CertificateAuthority, Validity};
use crate::certificates::{Publisher, Trouble};

const HOUR: Duration = Duration::from_secs(3600);

/// How long a serving certificate lives.
const LIFE: Duration = HOUR.saturating_mul(24 * 90);

const AUTHORITY_LIFE: Duration = HOUR.saturating_mul(24 * 3650);

pub(super) struct Replica<S> {
    settings: ManagedSettings,
    store: S,
    publisher: Publisher,
    /// The authority that signed the certificate in force.
    signer: Option<CertificateDer<'static>>,
}

impl<S: CertificateStore> Replica<S> {
    pub(super) fn new(settings: ManagedSettings, store: S, publisher: Publisher) -> Self {
        let waiting = |name: &&'static str| {
            let why = format!("APIService {name}: not checked yet");
            (*name, Err(why))
        };
        publisher.register(settings.apiservices.iter().map(waiting).collect());
        Self {
            settings,
            store,
            publisher,
            signer: None,
        }
    }

    /// Makes a pass. Returns whether the next one is due soon: another replica wrote first, or
    /// there is no certificate yet.
    pub(super) async fn pass(&mut self, now: SystemTime) -> bool {
        let attempt = self.attempt(now).await;
        match &attempt {
            Ok(()) | Err(Trouble::Conflict) => {}
            Err(trouble) => self.publisher.failing(trouble),
        }
        attempt == Err(Trouble::Conflict) || self.publisher.pair().is_none()
    }

    async fn attempt(&mut self, now: SystemTime) -> Result<(), Trouble> {
        let authority = self.authority(now).await?;
        let place = self.store.place();
        let failed = |why| Trouble::Lasting(format!("{place}: {why}"));
        self.sign(&authority, now).map_err(failed)?;
        self.register(&authority.certificate_pem()).await
    }

    /// The authority of the Secret, or a new one that is written there.
    async fn authority(&self, now: SystemTime) -> Result<CertificateAuthority, Trouble> {
        let stored = self.store.secret().await?;
        let why = match read(&stored.data, now) {
            Ok(authority) => return Ok(authority),
            Err(why) => why,
        };
        let validity = Validity {
            not_before: now - HOUR,
            not_after: now + AUTHORITY_LIFE,
        };
        let authority = CertificateAuthority::new("gpu-metrics-apiserver authority", validity)
            .map_err(Trouble::Lasting)?;
        let written = SecretData::from([
            (CA_CERTIFICATE.into(), authority.certificate_pem().into()),
            (CA_KEY.into(), authority.key_pem().into()),
        ]);
        self.store.write_secret(&stored.version, &written).await?;
        let place = self.store.place();
        match stored.data.is_empty() {
            true => tracing::info!("{place}: an authority was made"),
            false => tracing::warn!("{place}: {why}: a new authority was made"),
        }
        Ok(authority)
    }

    /// Signs a certificate if the one in force is old, or of another authority. It does not
    /// outlive its authority, and is valid for clients whose clock is up to an hour late.
    fn sign(&mut self, authority: &CertificateAuthority, now: SystemTime) -> Result<(), String> {
        let signer = Some(authority.certificate());
        let served = self.publisher.pair();
        if signer == self.signer && served.is_some_and(|pair| !pair.validity().is_old(now)) {
            self.publisher.well();
            return Ok(());
        }
        let by = authority.validity();
        let validity = Validity {
            not_before: (now - HOUR).max(by.not_before),
            not_after: (now + LIFE).min(by.not_after),
        };
        let names = service_names(&self.settings.service);
        let names = names.each_ref().map(String::as_str);
        let pair = authority.serving(&names, &[], validity)?.pair()?;
        pair.check(now)?;
        self.publisher.serve(pair);
        self.signer = signer;
        Ok(())
    }

    /// Repairs the APIServices that do not trust the authority `bundle`, or trust others.
    async fn register(&self, bundle: &str) -> Result<(), Trouble> {
        let mut states = self.publisher.registrations();
        let mut registered = Ok(());
        for &name in &self.settings.apiservices {
            let state = match self.mend(name, bundle).await {
                Ok(()) => Ok(()),
                Err(Trouble::Lasting(why)) => Err(why),
                Err(Trouble::Conflict) => {
                    registered = Err(Trouble::Conflict);
                    continue;
                }
                // During an outage of kube-apiserver the last known state stays.
                Err(Trouble::Passing(_)) => continue,
            };
            match &state {
                state if states.get(name) == Some(state) => {}
                Ok(()) => tracing::info!("APIService {name}: registered"),
                Err(why) => tracing::warn!("{why}"),
            }
            states.insert(name, state);
        }
        self.publisher.register(states);
        registered
    }

    async fn mend(&self, name: &str, bundle: &str) -> Result<(), Trouble> {
        let found = self.store.apiservice(name).await?;
        let change = plan(&self.settings, name, found.as_ref(), bundle);
        match change.map_err(Trouble::Lasting)? {
            Some(change) => self.store.write_apiservice(name, &change).await,
            None => Ok(()),
        }
    }
}

/// The authority in these values. One of which two thirds of the life are over is replaced.
fn read(data: &SecretData, now: SystemTime) -> Result<CertificateAuthority, String> {
    let value = |key: &str| data.get(key).map_or(&[][..], Vec::as_slice);
    let key = str::from_utf8(value(CA_KEY)).unwrap_or_default();
    let authority = CertificateAuthority::from_pem(value(CA_CERTIFICATE), key)
        .map_err(|error| format!("{CA_CERTIFICATE} and {CA_KEY}: {error}"))?;
    match authority.validity().is_old(now) {
        true => Err("the authority is old".to_owned()),
        false => Ok(authority),
    }
}
