//! The rights of accounts, from SubjectAccessReviews.

use futures_util::future::try_join_all;

use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::reviewer::{Access, AccessVerdict, Reviewer};
use cluster_state::review::KubeReviewer;
use findings::Skipped;
use findings::registration::NAME;
use findings::rights::{self, AUTOSCALER, Grant, Installed, Right};

use super::{Inspection, ServerService};

/// The account of the HPA controller if kube-controller-manager runs without
/// `--use-service-account-credentials`.
const CONTROLLERS: &str = "system:kube-controller-manager";

impl Inspection<'_> {
    pub async fn autoscaler_rights(&mut self, home: Option<&ServerService>) {
        let whole = Identity {
            user: CONTROLLERS.to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..Identity::default()
        };
        let own = service_account("kube-system", AUTOSCALER);
        let unknown = || Installed {
            service: NAME.to_owned(),
            ..Installed::default()
        };
        let installed = home.map_or_else(unknown, |home| home.server.clone());
        let all = rights::grants(&installed);
        for grant in all.iter().filter(|it| it.is_of_autoscaler) {
            self.grant(grant, &installed, &[own.clone(), whole.clone()])
                .await;
        }
    }

    pub async fn server_rights(&mut self, installed: &Installed) {
        let identity = [service_account(&installed.namespace, &installed.account)];
        let all = rights::grants(installed);
        for grant in all.iter().filter(|it| !it.is_of_autoscaler) {
            self.grant(grant, installed, &identity).await;
        }
    }

    /// Reports each right of a grant that none of the accounts has. If the rights cannot be
    /// reviewed, the check is recorded as skipped.
    async fn grant(&mut self, grant: &Grant, of: &Installed, accounts: &[Identity]) {
        let reviewer = KubeReviewer::new(self.client.clone(), self.client.clone());
        let mut missing = grant.rights.clone();
        let reviews = missing.iter().map(|right| may(&reviewer, accounts, right));
        match try_join_all(reviews).await {
            Ok(verdicts) => {
                let mut verdicts = verdicts.into_iter();
                missing.retain(|_| verdicts.next() == Some(false));
                self.report.looked |= !missing.is_empty();
                self.report.findings.extend(grant.finding(of, &missing));
            }
            Err(error) => {
                let what = format!("rights of {}", accounts[0].user);
                let remedy = "grant create of subjectaccessreviews.authorization.k8s.io to the account that runs check";
                let skipped = Skipped::new(what, error, remedy);
                self.report.skipped.insert(skipped.of(&[grant.code()]));
            }
        }
    }
}

async fn may(
    reviewer: &KubeReviewer,
    accounts: &[Identity],
    right: &Right,
) -> Result<bool, String> {
    let parts = right.resource.split_once('/');
    let (resource, subresource) = parts.unwrap_or((&right.resource, ""));
    let access = Access::Resource {
        verb: right.verb.clone(),
        group: right.group.clone(),
        version: right.version.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: right.namespace.clone(),
        name: right.name.clone(),
    };
    for identity in accounts {
        if reviewer.access(identity, &access).await? == AccessVerdict::Allowed(()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The identity of a service account in SubjectAccessReviews.
fn service_account(namespace: &str, name: &str) -> Identity {
    Identity {
        user: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        ..Identity::default()
    }
}
