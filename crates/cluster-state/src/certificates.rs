//! The serving certificate that each replica signs, and its registration with kube-apiserver.
//!
//! ```text
//!             ┌──── Secret ────┐
//!  replica ◄──┤   authority    ├──► replica
//!     │       └────────────────┘       │
//!     └───► caBundle of the APIServices ◄──┘
//! ```
//!
//! There is no leader. Each replica makes the same pass every few seconds. A write contains the
//! version that it is based on. If two replicas write at the same time, one gets a conflict, and
//! reads again in its next pass.
//!
//! The authority changes when the Secret is deleted. Until every replica has made a pass,
//! kube-apiserver does not trust those with a certificate of the former authority.
//!
//! An account with the right to write the Secret controls the authority, because
//! kube-apiserver trusts what is written there. That right is as strong as the right to
//! read the Secret. Grant it to no other account.

use std::time::{Duration, SystemTime};

use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CallError;
use super::registration::{RESOURCE_APISERVICES, RegistrationSettings, change};
use super::rights;
use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::certificates::{Publisher, Trouble};

/// Time between two passes. An emptied bundle is restored within it.
const EVERY: Duration = Duration::from_secs(10);

/// Pause while there is no certificate: the rights of a new server may be seconds younger than
/// its pod.
const SOON: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);
const CERTIFICATE_LIFE: Duration = HOUR.saturating_mul(24 * 90);
const AUTHORITY_LIFE: Duration = HOUR.saturating_mul(24 * 3650);

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Keeps a certificate in force and its authority registered, without end. It can be cancelled
/// at any point, because each of its writes is complete in itself.
pub async fn run(settings: RegistrationSettings, client: Client, publisher: Publisher) {
    let mut replica = Replica::new(settings, client, publisher);
    loop {
        replica.pass(SystemTime::now()).await;
        let has_pair = replica.publisher.pair().is_some();
        tokio::time::sleep(if has_pair { EVERY } else { SOON }).await;
    }
}

/// A failed call about an object, with the remedy if the right to it is missing.
fn failed(object: &str, remedy: &str, error: CallError) -> Trouble {
    let error = error.without_right(remedy);
    let text = format!("{object}: {error}");
    match error.is_passing() {
        true => Trouble::Passing(text),
        false => Trouble::Lasting(text),
    }
}

/// One of several replicas that share an authority and APIServices.
pub(super) struct Replica {
    settings: RegistrationSettings,
    client: Client,
    publisher: Publisher,
    /// The authority that signed the certificate in force, PEM.
    signer: Option<String>,
}

impl Replica {
    pub(super) const fn new(
        settings: RegistrationSettings,
        client: Client,
        publisher: Publisher,
    ) -> Self {
        Self {
            settings,
            client,
            publisher,
            signer: None,
        }
    }

    /// Reads the authority from the Secret, or makes one if there is none that is usable. Signs a
    /// certificate in memory if the one in force is of another authority, or old. Writes the
    /// authority to the APIServices that do not trust it, or trust others.
    pub(super) async fn pass(&mut self, now: SystemTime) {
        let bundle = match self.keep_certificate(now).await {
            Ok(bundle) => bundle,
            Err(trouble) => return self.publisher.report(Some(trouble)),
        };
        self.publisher.report(None);
        for &name in &self.settings.apiservices {
            match self.register(name, &bundle).await {
                Ok(()) => self.publisher.register(name, None),
                // During an outage of kube-apiserver the last known state stays.
                Err(Trouble::Passing(_)) => {}
                Err(Trouble::Lasting(why)) => self.publisher.register(name, Some(why)),
            }
        }
    }

    /// Keeps a certificate of the authority in force. Returns the authority, PEM.
    async fn keep_certificate(&mut self, now: SystemTime) -> Result<String, Trouble> {
        let authority = self.authority(now).await?;
        let bundle = authority.certificate_pem();
        let in_force = self.publisher.pair();
        if self.signer.as_ref() != Some(&bundle)
            || in_force.is_none_or(|pair| pair.validity().is_old(now))
        {
            let unsigned = |why| Trouble::Lasting(format!("{}: {why}", self.secret()));
            let pair = self.sign(&authority, now).map_err(unsigned)?;
            self.publisher.serve(pair);
            self.signer = Some(bundle.clone());
        }
        Ok(bundle)
    }

    /// The Secret, for messages.
    fn secret(&self) -> String {
        let RegistrationSettings {
            service, secret, ..
        } = &self.settings;
        format!("Secret {}/{secret}", service.namespace)
    }

    /// The authority of the Secret, or a new one that is written there.
    async fn authority(&self, now: SystemTime) -> Result<CertificateAuthority, Trouble> {
        let RegistrationSettings {
            service, secret, ..
        } = &self.settings;
        let path = format!("/api/v1/namespaces/{}/secrets/{secret}", service.namespace);
        let failed = |error| failed(&self.secret(), rights::OWN, error);
        let stored = match self.client.text(Request::get(&path).body(Vec::new())).await {
            // Without values, this changes none that another replica has written meanwhile. It is
            // a server-side apply, because RBAC then checks `create` with the Secret's name
            // (`k8s.io/apiserver`: `pkg/endpoints/handlers/patch.go`).
            Err(CallError::NotFound(_)) => {
                let empty =
                    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}});
                self.patch(&path, APPLY, &empty).await
            }
            stored => stored,
        };
        // The parser's message may quote a private key, so no part of it is used.
        let garbled = |_| failed(self.client.garbled("this is no Secret"));
        let stored: Secret = serde_json::from_str(&stored.map_err(failed)?).map_err(garbled)?;
        let why = match read(&stored, now) {
            Ok(authority) => return Ok(authority),
            Err(why) => why,
        };
        let validity = Validity {
            not_before: now - HOUR,
            not_after: now + AUTHORITY_LIFE,
        };
        let authority = CertificateAuthority::new("gpu-metrics-apiserver authority", validity)
            .map_err(Trouble::Lasting)?;
        let values = json!({
            "metadata": {"resourceVersion": stored.metadata.resource_version},
            "data": {
                CA_CERTIFICATE: ByteString(authority.certificate_pem().into_bytes()),
                CA_KEY: ByteString(authority.key_pem().into_bytes()),
            },
        });
        self.patch(&path, MERGE, &values).await.map_err(failed)?;
        tracing::info!("{}: {why}: an authority was made", self.secret());
        Ok(authority)
    }

    /// A certificate of the authority, which it does not outlive. It is valid for clients whose
    /// clock is up to an hour late.
    fn sign(&self, authority: &CertificateAuthority, now: SystemTime) -> Result<Pair, String> {
        let signer = authority.validity;
        let validity = Validity {
            not_before: (now - HOUR).max(signer.not_before),
            not_after: (now + CERTIFICATE_LIFE).min(signer.not_after),
        };
        let names = self.settings.service.dns_names();
        let issued = authority.serving(&names.each_ref().map(String::as_str), validity)?;
        let pair = Pair::issued(issued)?;
        pair.check(now).map(|()| pair)
    }

    /// Makes an APIService refer to the server and trust the authority `bundle`.
    async fn register(&self, name: &'static str, bundle: &str) -> Result<(), Trouble> {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let is_optional = RESOURCE_APISERVICES.contains(&name);
        let (right, manifest) = match is_optional {
            true => (
                rights::RESOURCE_APISERVICE,
                "optional/resource-metrics.yaml",
            ),
            false => (rights::OWN, "apiservices.yaml, or run helm upgrade"),
        };
        let failed = |error| failed(&format!("APIService {name}"), right, error);
        let found = match self.client.object(&path).await {
            Err(CallError::NotFound(_)) => {
                return Err(Trouble::Lasting(format!(
                    "APIService {name} does not exist, so kube-apiserver sends the server no \
                     requests for it: apply manifests/{manifest}"
                )));
            }
            found => found.map_err(failed)?,
        };
        let change = change(&self.settings, name, found, bundle).map_err(Trouble::Lasting)?;
        if let Some(patch) = change {
            self.patch(&path, MERGE, &patch).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        path: &str,
        kind: &'static str,
        patch: &Value,
    ) -> Result<String, CallError> {
        let path = format!("{path}?fieldManager=gpu-metrics-apiserver");
        let request = Request::patch(path).header(CONTENT_TYPE, kind);
        let body = patch.to_string().into_bytes();
        self.client.text(request.body(body)).await
    }
}

/// The authority in the Secret. One of which two thirds of the life are over is replaced.
fn read(secret: &Secret, now: SystemTime) -> Result<CertificateAuthority, String> {
    let value = |key: &str| {
        let values = secret.data.as_ref();
        values.and_then(|values| Some(&*values.get(key)?.0))
    };
    let (Some(certificate), Some(key)) = (value(CA_CERTIFICATE), value(CA_KEY)) else {
        return Err("it has no authority".to_owned());
    };
    let key = str::from_utf8(key).unwrap_or_default();
    let authority = CertificateAuthority::from_pem(certificate, key)
        .map_err(|error| format!("{CA_CERTIFICATE} and {CA_KEY}: {error}"))?;
    match authority.validity.is_old(now) {
        true => Err("the authority is old".to_owned()),
        false => Ok(authority),
    }
}
