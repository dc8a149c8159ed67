//! Remedies for an APIService that kube-apiserver reports as unavailable. They depend on
//! the condition's reason, or on its message if kube-apiserver sent the server a request
//! (kube-aggregator `pkg/controllers/status/remote/remote_available_controller.go`).

const PLAIN_HTTP: &str = "the Service forwards to a port that serves plain HTTP: set its targetPort to the port of --secure-port";
const FRONT_PROXY: &str = "the server does not accept kube-apiserver as a front proxy: compare the --requestheader flags with the ConfigMap kube-system/extension-apiserver-authentication";
const UNREACHED: &str = "kube-apiserver cannot reach the pods: allow the control plane to reach port 6443 of the nodes (firewall, NetworkPolicy)";
const CLOSED: &str = "the connection is accepted and then closed: check the log of the server, and any proxy or service mesh in front of it";

/// Words of a condition: its reason, the status of an answer, or an error of Go's network
/// and TLS libraries. The first row that applies has the remedy.
const REMEDIES: [(&str, &str); 21] = [
    (
        ": 404",
        "the server that answers does not serve this group: the Service forwards to another server (compare its selector and port with the server's pods), or to a version of the server without this group",
    ),
    (": 401", FRONT_PROXY),
    (": 403", FRONT_PROXY),
    (
        "bad status from ",
        "the server that answers refuses the request: check the log of the server, and whether the Service forwards to another server",
    ),
    (
        "ServiceNotFound",
        "the APIService refers to a Service that does not exist: install the server, or correct spec.service",
    ),
    (
        "ServicePortError",
        "set spec.service.port to a port of the Service",
    ),
    (
        "EndpointsNotFound",
        "the Service selects no pods: compare its selector with the labels of the server's pods",
    ),
    (
        "MissingEndpoints",
        "no pod of the server is ready: check its log and /readyz",
    ),
    (
        "ServiceAccessError",
        "kube-apiserver could not read the Service: try again",
    ),
    (
        "connection refused",
        "no process listens at the address of the Service: check that the server runs, and set the Service's targetPort to the port of --secure-port",
    ),
    (
        "tls: access denied",
        "the server has no certificate yet: its log names the right or file that it waits for",
    ),
    ("HTTP response to HTTPS client", PLAIN_HTTP),
    (
        "first record does not look like a TLS handshake",
        PLAIN_HTTP,
    ),
    (
        "tls: ",
        "the server and kube-apiserver have no TLS version or cipher suite in common: compare --tls-min-version and --tls-cipher-suites with those of kube-apiserver, and check any proxy in front of the server",
    ),
    (
        "no such host",
        "the name of the Service cannot be resolved: correct its externalName, or make it a Service with a selector",
    ),
    ("connection reset by peer", CLOSED),
    ("EOF", CLOSED),
    ("i/o timeout", UNREACHED),
    ("exceeded", UNREACHED),
    ("no route to host", UNREACHED),
    ("network is unreachable", UNREACHED),
];

/// The remedy for a condition: `REASON: MESSAGE`.
pub(super) fn remedy(condition: &str) -> &'static str {
    let known = REMEDIES.iter().find(|(words, _)| condition.contains(words));
    known.map_or("see the log of the server", |(_, remedy)| remedy)
}
