//! The rights of the server's account on kube-apiserver, and what grants them.

/// A right whose absence is a 403.
#[derive(Clone, Debug)]
pub(super) enum Right {
    /// To list and watch the objects of a resource in all namespaces.
    Watch { group: String, plural: String },
    /// To read the kinds that the cluster serves.
    Discovery,
    /// To read the ConfigMap of delegated authentication.
    Authentication,
    /// To create TokenReviews and SubjectAccessReviews.
    Reviews,
    /// To read and write the Secret of the authority.
    AuthoritySecret,
    /// To read and write an APIService; an optional one is of resource metrics.
    ApiService { is_optional: bool },
}

impl Right {
    /// What grants the right to the account that the refusal of kube-apiserver names: `User
    /// "system:serviceaccount:NAMESPACE:NAME" cannot …`. In the manifests and in the chart,
    /// the names of roles and bindings begin with the account's name. Empty if the user is no
    /// service account and the remedy depends on it.
    pub(super) fn remedy(&self, refusal: &str) -> String {
        let account = account(refusal);
        match self {
            Self::Watch { group, plural } => {
                let rule = format!(
                    "add to the server's ClusterRole: {{apiGroups: [\"{group}\"], \
                     resources: [\"{plural}\"], verbs: [\"list\", \"watch\"]}}"
                );
                let bound = account.map(|account| {
                    let role = format!("{}:inventory", account.name);
                    format!("; if it is not bound: {}", account.bind(&role, &role))
                });
                rule + &bound.unwrap_or_default()
            }
            Self::Discovery => {
                "bind the ClusterRole system:discovery to the server's account".into()
            }
            Self::Authentication => {
                "bind the Role extension-apiserver-authentication-reader to the \
                                     server's account by a RoleBinding in the namespace kube-system"
                    .into()
            }
            Self::AuthoritySecret => {
                "allow get, patch and create of it: run the command that check prints for GM201"
                    .into()
            }
            Self::ApiService { is_optional: false } => {
                "allow get and patch of it: run the command that check prints for GM201".into()
            }
            Self::ApiService { is_optional: true } => {
                "apply manifests/optional/resource-metrics.yaml, which has the APIService and \
                 the right to get and patch it, or remove resourceRules from the configuration"
                    .into()
            }
            Self::Reviews => account.map_or_else(String::new, |account| {
                let binding = format!("{}:auth-delegator", account.name);
                let command = account.bind(&binding, "system:auth-delegator");
                format!("the ClusterRoleBinding {binding} is missing: {command}")
            }),
        }
    }
}

/// The server's ServiceAccount.
struct Account<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Account<'_> {
    fn bind(&self, binding: &str, role: &str) -> String {
        let Self { namespace, name } = self;
        format!(
            "kubectl create clusterrolebinding {binding} --clusterrole={role} \
             --serviceaccount={namespace}:{name}"
        )
    }
}

fn account(refusal: &str) -> Option<Account<'_>> {
    let (_, user) = refusal.split_once("\"system:serviceaccount:")?;
    let (namespace, name) = user.split_once('"')?.0.split_once(':')?;
    Some(Account { namespace, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_has_the_command_that_binds_the_refused_account() {
        let refusal = "pods is forbidden: User \"system:serviceaccount:gpu:server\" cannot list";
        let pods = Right::Watch {
            group: String::new(),
            plural: "pods".to_owned(),
        };
        assert_eq!(
            pods.remedy(refusal),
            "add to the server's ClusterRole: {apiGroups: [\"\"], resources: [\"pods\"], \
             verbs: [\"list\", \"watch\"]}; if it is not bound: kubectl create clusterrolebinding \
             server:inventory --clusterrole=server:inventory --serviceaccount=gpu:server"
        );
        assert_eq!(
            Right::Reviews.remedy(refusal),
            "the ClusterRoleBinding server:auth-delegator is missing: kubectl create \
             clusterrolebinding server:auth-delegator --clusterrole=system:auth-delegator \
             --serviceaccount=gpu:server"
        );
        assert_eq!(Right::Reviews.remedy("User \"ada\" cannot"), "");
    }
}
