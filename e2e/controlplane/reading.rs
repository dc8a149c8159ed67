//! Reads of kube-apiserver that tests repeat while they wait: a kubectl for each would take
//! a third of a core.

use serde_json::Value;

use super::ControlPlane;
use crate::asking::ApiClient;

impl ControlPlane {
    /// The administrator.
    pub(crate) fn client(&self) -> &ApiClient {
        self.client.get_or_init(|| ApiClient::of(&self.kubeconfig))
    }

    /// The answer at a path as the administrator, or its error.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let reply = self.client().wait(path);
        reply.trouble().map_or(Ok(reply.body), Err)
    }

    /// The objects of a kind in a namespace, or the one with a name, as JSON: `pods/NAME`.
    pub(crate) fn found(&self, namespace: &str, what: &str) -> Value {
        let api = match what.split(['/', '?']).next().unwrap() {
            "deployments" => "apis/apps/v1",
            "horizontalpodautoscalers" => "apis/autoscaling/v2",
            _ => "api/v1",
        };
        let path = format!("/{api}/namespaces/{namespace}/{what}");
        let said = self.read(&path);
        let said = said.unwrap_or_else(|said| panic!("{path}: {said}"));
        serde_json::from_str(&said).unwrap()
    }

    /// The names of the running pods in a namespace, sorted.
    pub(crate) fn pods(&self, namespace: &str) -> Vec<String> {
        let running = "pods?fieldSelector=status.phase%3DRunning";
        let mut said = self.found(namespace, running);
        let pods = said["items"].as_array_mut().unwrap().iter_mut();
        let name = |pod: &mut Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = pods.map(name).collect();
        names.sort();
        names
    }
}
