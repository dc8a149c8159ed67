//! All metrics of the server, from which `make tables` writes the table of docs/metrics.md. The
//! compiler warns of a metric that is never used.
//!
//! Names follow the conventions of Prometheus: base units, `_total` for counters,
//! timestamps instead of ages (`time() - NAME` is the age). Label values come from closed
//! sets: never a namespace, object, user or path.

use parking_lot::Mutex;
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;

use super::{Copier, Counters, Gauges, Histograms, opts};

/// Declares families by their names without the prefix `gpu_metrics_apiserver_`, their kinds,
/// the names of their labels, and a sentence without its full stop.
macro_rules! catalog {
    ($($name:ident: $kind:ident [$($label:tt),*] $help:literal;)*) => {
        /// The families, in the order of docs/metrics.md, and the metrics of the process.
        pub struct Metrics {
            $(
                #[doc = $help]
                pub(crate) $name: $kind<{ <[&str]>::len(&[$(stringify!($label)),*]) }>,
            )*
            pub(super) registry: Registry,
            pub(super) copiers: Mutex<Vec<Copier>>,
        }

        impl Metrics {
            /// Registers all families.
            pub(super) fn declared() -> prometheus::Result<Self> {
                let registry = Registry::new();
                registry.register(Box::new(ProcessCollector::for_self()))?;
                $(let $name = $kind::new(
                    &registry,
                    opts(stringify!($name), $help),
                    [$(stringify!($label)),*],
                )?;)*
                Ok(Self { $($name,)* registry, copiers: Mutex::default() })
            }

            #[cfg(test)]
            pub(crate) fn collectors(&self) -> Vec<Box<dyn prometheus::core::Collector>> {
                vec![$(Box::new(self.$name.0.clone())),*]
            }
        }
    };
}

catalog! {
    build_info: Gauges [version, revision]
        "The program's version and the revision of its source";
    queries_total: Counters [server, signal, outcome]
        "Queries to a Prometheus by signal: one for several signals counts for each; server is the key of its settings, such as prometheus; outcome is success or the kind of failure";
    query_duration_seconds: Histograms [signal]
        "How long queries to the metrics backend took, decoding included, failures included";
    query_last_success_timestamp_seconds: Gauges [server, signal]
        "When a Prometheus last answered a signal; time() minus it is the age";
    samples_accepted_total: Counters [signal]
        "New and valid samples taken in";
    samples_dropped_total: Counters [signal, reason]
        "New samples not taken in: invalid (a sentinel, no number, out of range), too_old or future";
    series_dropped_total: Counters [signal, reason]
        "Series not taken in: unidentified (they name no device, counted once each) or too_many (counted each poll)";
    series: Gauges []
        "Series kept in memory";
    devices: Gauges [state]
        "Devices: held by a live pod or unheld; of both, silent; of the held ones, as means over the window, active and idle";
    snapshot_timestamp_seconds: Gauges []
        "When the values in force were computed; time() minus it is their age";
    rule_queries_refused_total: Counters [kind]
        "Queries of rules not sent, and their requests answered 503: for a second prometheus.maxConcurrentQueries were in flight, or half of them for the same user; kind is metric (custom or external) or resource";
    requests_total: Counters [group, resource, code]
        "Requests answered; resource is custom, external, pods, nodes, findings or devices, or what a path outside of the groups is for";
    request_duration_seconds: Histograms [group, resource]
        "Time from a request to its answer, sending not included";
    reviews_total: Counters [kind, verdict]
        "Reviews asked of kube-apiserver: token or access; allowed, refused or error";
    certificate_expiry_timestamp_seconds: Gauges [use]
        "When the certificate expires";
    watch_last_event_timestamp_seconds: Gauges [resource]
        "When a watch of the Kubernetes API was last known to be alive; time() minus it is its age";
    findings: Gauges [code, severity]
        "Findings by the codes of docs/checks; a code whose check could not run is absent";
    health_check: Gauges [name]
        "1 if a check of /readyz passes, 0 if it fails or waits";
}
