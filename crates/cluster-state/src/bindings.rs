//! The ClusterRoleBindings of `manifests/rbac.yaml`, as the remedy of a 403: the binding's
//! name and the command that creates it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Allows creating TokenReviews and SubjectAccessReviews.
    AuthDelegator,
    /// Allows listing and watching pods, namespaces, nodes and owners.
    Inventory,
}

impl Binding {
    /// The remedy for a 403 of kube-apiserver, whose message contains the account: `User
    /// "system:serviceaccount:NAMESPACE:NAME" cannot …`. In the manifests and in the chart,
    /// the names of the binding and of the role begin with the account's name. `None`: the
    /// user is no service account.
    pub(super) fn remedy(self, refusal: &str) -> Option<String> {
        let (namespace, account) = account(refusal)?;
        let (binding, role) = match self {
            Self::AuthDelegator => ("auth-delegator", "system:auth-delegator".to_owned()),
            Self::Inventory => ("inventory", format!("{account}:inventory")),
        };
        let name = format!("{account}:{binding}");
        Some(format!(
            "the ClusterRoleBinding {name} is missing: kubectl create clusterrolebinding {name} \
             --clusterrole={role} --serviceaccount={namespace}:{account}"
        ))
    }
}

fn account(refusal: &str) -> Option<(&str, &str)> {
    let (_, user) = refusal.split_once("\"system:serviceaccount:")?;
    user.split_once('"')?.0.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_the_command_that_binds_the_refused_account() {
        let refusal = "pods is forbidden: User \"system:serviceaccount:gpu:server\" cannot list";
        assert_eq!(
            Binding::Inventory.remedy(refusal).unwrap(),
            "the ClusterRoleBinding server:inventory is missing: kubectl create clusterrolebinding \
             server:inventory --clusterrole=server:inventory --serviceaccount=gpu:server"
        );
        assert_eq!(Binding::AuthDelegator.remedy("User \"ada\" cannot"), None);
    }
}
