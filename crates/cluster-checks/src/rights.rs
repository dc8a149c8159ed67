//! The rights of accounts, from SubjectAccessReviews.

use futures_util::future::try_join_all;

use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::reviewer::{Access, AccessVerdict, ReviewError, Reviewer};
use cluster_state::review::KubeReviewer;
use findings::registration::NAME;
use findings::rights::{AUTOSCALER, Installed, Right, Role, right};

use super::{Inspection, ServerService};

const ASK_RIGHTS: Right<'static> = right(
    "create",
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
);

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
        self.role(Role::Autoscaler, &installed, &[own, whole]).await;
    }

    pub async fn server_rights(&mut self, installed: &Installed) {
        let identity = [service_account(&installed.namespace, &installed.account)];
        for role in Role::SERVER {
            self.role(role, installed, &identity).await;
        }
    }

    /// Reports each right of a role that none of the accounts has. If the rights cannot be
    /// reviewed, the check is recorded as skipped.
    async fn role(&mut self, role: Role, installed: &Installed, accounts: &[Identity]) {
        let reviewer = KubeReviewer::new(self.client.clone(), self.client.clone());
        let mut missing = role.rights(installed);
        let reviews = missing.iter().map(|right| may(&reviewer, accounts, right));
        match try_join_all(reviews).await {
            Ok(verdicts) => {
                let mut verdicts = verdicts.into_iter();
                missing.retain(|_| verdicts.next() == Some(false));
                self.report.looked |= !missing.is_empty();
                let found = role.finding(installed, &missing);
                self.report.findings.extend(found);
            }
            Err(error) => {
                let what = format!("rights of {}", accounts[0].user);
                let skipped = ASK_RIGHTS.skipped(&what, &error.0);
                self.report.skipped.insert(skipped.of(&[role.code()]));
            }
        }
    }
}

async fn may(
    reviewer: &KubeReviewer,
    accounts: &[Identity],
    right: &Right<'_>,
) -> Result<bool, ReviewError> {
    let parts = right.resource.split_once('/');
    let (resource, subresource) = parts.unwrap_or((right.resource, ""));
    let access = Access::Resource {
        verb: right.verb.to_owned(),
        group: right.group.to_owned(),
        version: right.version.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: right.namespace.to_owned(),
        name: right.name.to_owned(),
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
