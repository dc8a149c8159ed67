//! The APIServices, and the server behind them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use cluster_state::error::CallError;
use cluster_state::registration::{APISERVICES, RESOURCE_APISERVICES};
use findings::codes::{GM101, OF_APISERVICES};
use findings::registration::{self, AnsweringServer, NAME, Registered};
use findings::rights::Installed;

use super::paths::{encode, within};
use super::{Inspection, ReadAnswer, resources_of};

#[derive(Debug)]
pub struct RegisteredServers {
    /// The Service of this server; `None`: no APIService leads to it.
    pub home: Option<ServerService>,
    pub of_others: Vec<&'static str>,
}

#[derive(Debug)]
pub struct ServerService {
    /// Account and Secret are not set: only the Deployment names them.
    pub server: Installed,
    /// The labels of the pods behind it.
    pub selector: BTreeMap<String, String>,
}

impl ServerService {
    fn new(home: &Registered, all: &[Registered]) -> Option<Self> {
        let (namespace, service) = home.place()?;
        let others = all.iter().filter(|it| it.name != home.name);
        let beside = others.filter(|it| it.place() == home.place());
        let mut registered = vec![home.name];
        registered.extend(beside.map(|it| it.name));
        let spec = home.service.as_ref().and_then(|it| it.spec.clone());
        Some(Self {
            server: Installed {
                namespace: namespace.to_owned(),
                service: service.to_owned(),
                registered,
                ..Installed::default()
            },
            selector: spec.and_then(|it| it.selector).unwrap_or_default(),
        })
    }
}

impl Inspection<'_> {
    /// The APIServices, and findings about them. `pre`: before the server is installed.
    pub async fn registration(&mut self, pre: bool) -> Result<RegisteredServers, CallError> {
        let mut all = Vec::new();
        for name in APISERVICES {
            all.extend(self.registered(name).await?);
        }
        let home = registration::home(&all);
        let found = registration::check(&all, pre);
        self.report.findings.extend(found);
        let is_of_other = |it: &&Registered| registration::is_of_other(it, home, pre);
        let of_others = all.iter().filter(is_of_other).map(|it| it.name);
        Ok(RegisteredServers {
            home: home.and_then(|home| ServerService::new(home, &all)),
            of_others: of_others.collect(),
        })
    }

    /// Adds findings about the APIServices of resource metrics that lead to the server.
    pub async fn resource_registration(
        &mut self,
        home: Option<&ServerService>,
    ) -> Result<(), CallError> {
        let place = home.map(|home| (&*home.server.namespace, &*home.server.service));
        for name in RESOURCE_APISERVICES {
            let registered = self.registered(name).await?;
            let found = registered.map(|it| registration::check_resource(&it, place));
            self.report.findings.extend(found.into_iter().flatten());
        }
        Ok(())
    }

    async fn registered(&mut self, name: &'static str) -> Result<Option<Registered>, CallError> {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let what = format!("APIService {name}");
        let object = match self.read(&path, &what, OF_APISERVICES).await? {
            ReadAnswer::Found(object) => Some(object),
            ReadAnswer::Absent => None,
            ReadAnswer::Skipped => return Ok(None),
        };
        let mut registered = Registered {
            name,
            object,
            ..Registered::default()
        };
        self.ask(&mut registered).await;
        if let Some((namespace, service)) = registered.place() {
            registered.service = self.service(namespace, service).await?;
        }
        Ok(Some(registered))
    }

    pub async fn service(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Service>, CallError> {
        let place = within(Some(namespace));
        let path = format!("/api/v1/{place}services/{}", encode(name));
        let what = format!("Service {namespace}/{name}");
        let read = self.read(&path, &what, &[&GM101]).await?;
        Ok(read.found())
    }

    /// Identifies the server behind an available APIService.
    async fn ask(&self, registered: &mut Registered) {
        if !registered.is_available() {
            return;
        }
        let path = resources_of(registered.name);
        match self.client.object::<Value>(&path).await {
            Ok(list) if list["server"] == NAME => registered.answers = AnsweringServer::Ours,
            Ok(_) => registered.answers = AnsweringServer::Other,
            Err(error @ CallError::Status(..)) => registered.failure = Some(error.to_string()),
            Err(_) => {}
        }
    }
}
