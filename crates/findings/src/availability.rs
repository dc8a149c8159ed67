//! Why kube-apiserver finds an APIService unavailable, and the remedy. Determined by the
//! condition's reason, and by its message if kube-apiserver sent the server a request
//! (kube-aggregator `pkg/controllers/status/remote/remote_available_controller.go`).

const PLAIN_HTTP: &str =
    "the port of the Service leads to plain HTTP: set its targetPort to the port of --secure-port";
const UNREACHED: &str = "kube-apiserver does not reach the pods: allow the control plane to reach port 6443 of the nodes (firewall, NetworkPolicy)";
const CLOSED: &str = "something accepts the connection and closes it: see the log of the server, and what stands before it (a proxy, a service mesh)";

/// Texts of Go's network and TLS libraries; the first that occurs counts.
const BY_MESSAGE: [(&str, &str); 14] = [
    (
        "connection refused",
        "nothing listens where the Service leads: see whether the server runs, and set the Service's targetPort to the port of --secure-port",
    ),
    (
        "tls: access denied",
        "the server has no certificate to show: its log says which Secret, right or file it waits for",
    ),
    ("server gave HTTP response to HTTPS client", PLAIN_HTTP),
    (
        "first record does not look like a TLS handshake",
        PLAIN_HTTP,
    ),
    (
        "tls: ",
        "the server and kube-apiserver agree on no TLS: compare --tls-min-version and --tls-cipher-suites with what kube-apiserver takes, and see what stands before the server",
    ),
    (
        "no such host",
        "the Service's name is not resolved: correct its externalName, or make it a Service with a selector",
    ),
    ("connection reset by peer", CLOSED),
    ("EOF", CLOSED),
    ("i/o timeout", UNREACHED),
    ("deadline exceeded", UNREACHED),
    ("Client.Timeout", UNREACHED),
    ("request canceled", UNREACHED),
    ("no route to host", UNREACHED),
    ("network is unreachable", UNREACHED),
];

/// The remedy for a condition.
pub(super) fn remedy(reason: &str, message: &str) -> &'static str {
    let by_message = || {
        let known = BY_MESSAGE.iter().find(|(words, _)| message.contains(words));
        known.map(|(_, remedy)| *remedy)
    };
    answered(message)
        .or_else(|| unasked(reason))
        .or_else(by_message)
        .unwrap_or("see the log of the server")
}

/// The remedy if kube-apiserver sent no request for this reason.
fn unasked(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "ServiceNotFound" => {
            "the APIService names a Service that is not there: install the server, or correct spec.service"
        }
        "ServicePortError" => "spec.service.port is none of the Service's ports",
        "EndpointsNotFound" => {
            "the Service selects nothing: compare its selector with the labels of the server's pods"
        }
        "MissingEndpoints" => "no pod of the server is ready: see its log and /readyz",
        "ServiceAccessError" => "kube-apiserver could not read the Service: try again",
        _ => return None,
    })
}

/// The remedy if a server answered with an error, whose status ends the message.
fn answered(message: &str) -> Option<&'static str> {
    let (_, answer) = message.split_once("bad status from ")?;
    Some(match answer.rsplit(' ').next() {
        Some("404") => {
            "something answers, and does not serve this group: another server stands behind the Service (compare its selector and port with the server's pods), or a version of the server that does not have the group"
        }
        Some("401" | "403") => {
            "the server does not believe kube-apiserver as a front proxy: compare the --requestheader flags with the ConfigMap kube-system/extension-apiserver-authentication"
        }
        _ => {
            "something answers, and refuses: see the log of the server, or what else stands behind the Service"
        }
    })
}
