//! All metrics of the server. A test compares `docs/metrics.md` with this list, and the
//! compiler warns of a metric that is never used.
//!
//! Names follow the conventions of Prometheus: base units, `_total` for counters,
//! timestamps instead of ages (`time() - NAME` is the age). Label values come from closed
//! sets: never a namespace, object, user or path.

use prometheus_client::metrics::MetricType;

/// A metric family.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The family's name, without the suffix of its kind.
    pub name: &'static str,
    pub kind: MetricType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence without its full stop.
    pub help: &'static str,
}

/// For queries: 2 ms to 30 s, which is above the default timeout.
const QUERY_BUCKETS: [f64; 13] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// For computing the values: 0.1 ms to 5 s.
const SNAPSHOT_BUCKETS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// For requests: answers from memory take 0.1 ms; the longest timeout is 10 s.
const REQUEST_BUCKETS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

impl Spec {
    /// The buckets of a histogram, in seconds.
    pub(super) fn buckets(&self) -> &'static [f64] {
        match self.name {
            name if name == QUERY_SECONDS.name => &QUERY_BUCKETS,
            name if name == SNAPSHOT_SECONDS.name => &SNAPSHOT_BUCKETS,
            _ => &REQUEST_BUCKETS,
        }
    }
}

macro_rules! catalog {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(crate) const $constant: Spec = Spec {
                name: $name,
                kind: MetricType::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// Every metric, in the order of docs/metrics.md.
        #[cfg(test)]
        pub(crate) const ALL: &[&Spec] = &[$(&$constant),*];
    };
}

catalog! {
    BUILD = Info "gpu_metrics_apiserver_build" ["version", "revision"]
        "The program's version and the revision of its source";
    QUERIES = Counter "gpu_metrics_apiserver_queries" ["server", "signal", "outcome"]
        "Queries to a Prometheus by signal: one for several signals counts for each; server is the key of its settings, such as prometheus; outcome is success or the kind of failure";
    QUERY_SECONDS = Histogram "gpu_metrics_apiserver_query_duration_seconds" ["signal"]
        "How long queries to the metrics backend took, decoding included, failures included";
    LAST_SUCCESS = Gauge "gpu_metrics_apiserver_query_last_success_timestamp_seconds" ["server", "signal"]
        "When a Prometheus last answered a signal; time() minus it is the age";
    SAMPLES = Counter "gpu_metrics_apiserver_samples_accepted" ["signal"]
        "New and valid samples taken in";
    SAMPLES_DROPPED = Counter "gpu_metrics_apiserver_samples_dropped" ["signal", "reason"]
        "New samples not taken in: invalid (a sentinel, no number, out of range), too_old or future";
    SERIES_DROPPED = Counter "gpu_metrics_apiserver_series_dropped" ["signal", "reason"]
        "Series not taken in: unidentified (they name no device, counted once each) or too_many (counted each poll)";
    SERIES = Gauge "gpu_metrics_apiserver_series" []
        "Series kept in memory";
    DEVICES = Gauge "gpu_metrics_apiserver_devices" ["state"]
        "Devices: held by a live pod, unheld, or conflict (pod and series name different nodes); of the held ones, as means over the window, active and idle";
    TARGETS = Gauge "gpu_metrics_apiserver_targets" ["state"]
        "Scrape targets of the last minutes: heard, silent, or frozen (they answer, but their readings do not change)";
    CLUSTERS = Gauge "gpu_metrics_apiserver_clusters_in_store" []
        "Different values of a cluster label in the series, where there are several; set prometheus.matchers to one";
    SNAPSHOT_TIME = Gauge "gpu_metrics_apiserver_snapshot_timestamp_seconds" []
        "When the values in force were computed; time() minus it is their age";
    SNAPSHOT_SECONDS = Histogram "gpu_metrics_apiserver_snapshot_duration_seconds" []
        "How long it took to compute all values";
    CONFIG_TIME = Gauge "gpu_metrics_apiserver_config_last_success_timestamp_seconds" []
        "When the configuration in force was read";
    CONFIG_FAILURES = Counter "gpu_metrics_apiserver_config_reload_failures" []
        "Times that a changed configuration file could not be used; the former one stays in force";
    CONFIG_FAULTS = Gauge "gpu_metrics_apiserver_config_faults" []
        "Faults of rules in the configuration in force, which the log named when it was read";
    RULES = Gauge "gpu_metrics_apiserver_rules" ["kind"]
        "Usable rules in force: custom, external, or resource (two or none)";
    RULE_METRICS = Gauge "gpu_metrics_apiserver_rule_metrics" ["kind"]
        "Metrics that the rules provide, custom or external; a custom one counts for each resource";
    RULE_SHAPES = Gauge "gpu_metrics_apiserver_rule_series_shapes" []
        "Different sets of a name and names of labels among the series that the rules found";
    RELIST_SECONDS = Gauge "gpu_metrics_apiserver_rule_relist_duration_seconds" []
        "How long the last search for the series of all rules took";
    RELIST_TIME = Gauge "gpu_metrics_apiserver_rule_relist_last_success_timestamp_seconds" []
        "When the last search ended in which nothing failed";
    RELIST_FAILURES = Counter "gpu_metrics_apiserver_rule_relist_failures" ["of"]
        "What failed in searches: series (of one seriesQuery) or kinds (of the cluster); the check rule-series says which";
    RULE_LOOKUPS = Counter "gpu_metrics_apiserver_rule_query_lookups" ["result"]
        "Queries of rules that answers needed: hit (cached or in flight) or miss";
    RULE_QUERIES = Counter "gpu_metrics_apiserver_rule_queries" ["outcome"]
        "Queries of rules sent to Prometheus: success or failure";
    RULE_QUERIES_REFUSED = Counter "gpu_metrics_apiserver_rule_queries_refused" ["kind"]
        "Queries of rules not sent, and their requests answered 503: for a second prometheus.maxConcurrentQueries were in flight, or half of them for the same user; kind is metric (custom or external) or resource";
    REQUESTS = Counter "gpu_metrics_apiserver_requests" ["verb", "group", "resource", "code"]
        "Requests answered; resource is a resource of the API group, or what a path outside of the groups is for";
    REQUEST_SECONDS = Histogram "gpu_metrics_apiserver_request_duration_seconds" ["group", "resource"]
        "Time from a request to its answer, sending not included";
    IN_FLIGHT = Gauge "gpu_metrics_apiserver_requests_in_flight" []
        "Requests being answered";
    ABORTED = Counter "gpu_metrics_apiserver_requests_aborted" []
        "Requests whose client disconnected before the answer";
    REFUSED = Counter "gpu_metrics_apiserver_requests_refused" ["reason"]
        "Requests refused before they reached the API, by reason";
    REVIEWS = Counter "gpu_metrics_apiserver_reviews" ["kind", "verdict"]
        "Reviews asked of kube-apiserver: token or access; allowed, refused or error";
    REVIEW_CACHE = Counter "gpu_metrics_apiserver_review_cache_lookups" ["kind", "result"]
        "Look-ups in the caches of reviews: hit or miss";
    CONNECTIONS = Gauge "gpu_metrics_apiserver_connections" []
        "Open connections";
    CERTIFICATE_EXPIRY = Gauge "gpu_metrics_apiserver_certificate_expiry_timestamp_seconds" ["use"]
        "When the certificate expires";
    CERTIFICATE_FAILURES = Counter "gpu_metrics_apiserver_certificate_reload_failures" ["use"]
        "Times that a new certificate could not be obtained or used; the former one stays in force";
    WATCH_TIME = Gauge "gpu_metrics_apiserver_watch_last_event_timestamp_seconds" ["resource"]
        "When a watch of the Kubernetes API was last known to be alive; time() minus it is its age";
    WATCH_BREAKS = Counter "gpu_metrics_apiserver_watch_breaks" ["resource"]
        "Watches of the Kubernetes API that broke";
    INVENTORY = Gauge "gpu_metrics_apiserver_inventory_objects" ["resource"]
        "Objects of the Kubernetes API that are kept";
    FINDINGS = Gauge "gpu_metrics_apiserver_findings" ["code", "severity"]
        "Findings by the codes of docs/checks; a code whose check could not run is absent";
    CHECK = Gauge "gpu_metrics_apiserver_health_check" ["name"]
        "1 if a check of /readyz passes, 0 if it fails or waits";
    PROCESS_CPU = Counter "process_cpu_seconds" []
        "Total user and system CPU time spent in seconds";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" []
        "Resident memory size in bytes";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Virtual memory size in bytes";
    PROCESS_THREADS = Gauge "process_threads" []
        "Number of OS threads";
    PROCESS_FDS = Gauge "process_open_fds" []
        "Number of open file descriptors";
    PROCESS_MAX_FDS = Gauge "process_max_fds" []
        "Maximum number of open file descriptors";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "Start time of the process since unix epoch in seconds";
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Spec {
        /// The type in the Prometheus text format, which writes an info metric as a
        /// gauge, and the suffix of a sample's name.
        pub(crate) fn written_kind(&self) -> (&'static str, &'static str) {
            match self.kind {
                MetricType::Counter => ("counter", "_total"),
                MetricType::Info => ("gauge", "_info"),
                MetricType::Histogram => ("histogram", ""),
                MetricType::Gauge | MetricType::Unknown => ("gauge", ""),
            }
        }

        /// The name used in queries.
        pub(crate) fn full_name(&self) -> String {
            format!("{}{}", self.name, self.written_kind().1)
        }
    }

    /// The table of `docs/metrics.md`.
    fn table() -> String {
        let mut table = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
        for spec in ALL {
            let labels: Vec<String> = spec.labels.iter().map(|l| format!("`{l}`")).collect();
            let (name, kind) = (spec.full_name(), spec.written_kind().0);
            let (labels, help) = (labels.join(", "), spec.help);
            table.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
        }
        table
    }

    #[test]
    fn the_document_lists_every_metric() {
        let document = include_str!("../../../docs/metrics.md");
        let table = table();
        let is_there = document.contains(&table);
        assert!(is_there, "docs/metrics.md: replace its table by\n\n{table}");
    }

    #[test]
    fn names_are_distinct_and_help_is_one_line_without_its_full_stop() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), ALL.len());
        for spec in ALL {
            assert!(!spec.help.ends_with('.') && !spec.help.contains('\n'));
            // The two formats escape differently, so the text must need no escapes.
            assert!(!spec.help.contains(['\\', '"']), "{}", spec.name);
        }
    }
}
