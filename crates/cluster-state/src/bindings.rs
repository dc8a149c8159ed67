//! The ClusterRoleBindings of `manifests/rbac.yaml`, as the remedy of a 403: the binding's
//! name and the command that creates it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Allows creating TokenReviews and SubjectAccessReviews.
    AuthDelegator,
    /// Allows listing and watching pods, namespaces, nodes, services and owners.
    Inventory,
}

impl Binding {
    /// The remedy for a 403 of kube-apiserver, whose message contains the account: `User
    /// "system:serviceaccount:NAMESPACE:NAME" cannot …`. In the manifests and in the chart,
    /// the names of the binding and of the role begin with the account's name.
    pub(super) fn remedy(self, refusal: &str) -> String {
        let known = account(refusal);
        let account = known.map_or("gpu-metrics-apiserver", |(_, account)| account);
        let inventory = format!("{account}:inventory");
        let (name, role) = match self {
            Self::AuthDelegator => (format!("{account}:auth-delegator"), "system:auth-delegator"),
            Self::Inventory => (inventory.clone(), &*inventory),
        };
        match known {
            Some((namespace, _)) => format!(
                "the ClusterRoleBinding {name} is missing: kubectl create clusterrolebinding {name} \
                 --clusterrole={role} --serviceaccount={namespace}:{account}"
            ),
            None => format!("bind the ClusterRole {role} to the server's account"),
        }
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
            Binding::Inventory.remedy(refusal),
            "the ClusterRoleBinding server:inventory is missing: kubectl create clusterrolebinding \
             server:inventory --clusterrole=server:inventory --serviceaccount=gpu:server"
        );
        let of_user = Binding::AuthDelegator.remedy("User \"ada\" cannot create");
        assert_eq!(
            of_user,
            "bind the ClusterRole system:auth-delegator to the server's account"
        );
    }
}
