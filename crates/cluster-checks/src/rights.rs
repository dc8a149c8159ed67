//! The rights of accounts, from SubjectAccessReviews.

use futures_util::future::try_join_all;

use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::reviewer::{Access, AccessVerdict, Reviewer};
use cluster_state::review::KubeReviewer;
use findings::Skipped;
use findings::rights::{Account, Installed, Right};

use super::{Inspection, ServerService};

/// The account of the HPA controller if kube-controller-manager runs without
/// `--use-service-account-credentials`.
const CONTROLLERS: &str = "system:kube-controller-manager";

impl Inspection<'_> {
    /// Reports the rights that the HPA controller lacks, in either of its accounts.
    pub async fn autoscaler_rights(&mut self, home: Option<&ServerService>) {
        let whole = Identity {
            user: CONTROLLERS.to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..Identity::default()
        };
        let unknown = Installed::default();
        let installed = home.map_or(&unknown, |home| &home.server);
        self.rights(Account::Autoscaler, installed, Some(whole))
            .await;
    }

    /// Reports the rights that the server lacks.
    pub async fn server_rights(&mut self, installed: &Installed) {
        self.rights(Account::Server, installed, None).await;
    }

    /// Reports each right that neither the account nor `other` has. If the rights cannot be
    /// reviewed, the check is recorded as skipped.
    async fn rights(&mut self, account: Account, of: &Installed, other: Option<Identity>) {
        let [namespace, name] = account.place(of);
        let accounts = [Some(service_account(namespace, name)), other];
        let accounts: Vec<Identity> = accounts.into_iter().flatten().collect();
        let reviewer = KubeReviewer::new(self.client.clone(), self.client.clone());
        let mut missing = account.needs(of);
        let reviews = missing.iter().map(|right| may(&reviewer, &accounts, right));
        match try_join_all(reviews).await {
            Ok(verdicts) => {
                let mut verdicts = verdicts.into_iter();
                missing.retain(|_| verdicts.next() == Some(false));
                self.report.looked |= !missing.is_empty();
                self.report.findings.extend(account.lacks(&missing, of));
            }
            Err(error) => {
                let what = format!("rights of {}", accounts[0].user);
                let remedy = "grant create of subjectaccessreviews.authorization.k8s.io to the account that runs check";
                let skipped = Skipped::new(what, error, remedy);
                self.report.skipped.insert(skipped.of(&[account.code()]));
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
        version: "*".to_owned(),
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
