//! Two Prometheus 3 that scrape the same exporters, and Thanos on top of them.

use crate::built;
use crate::exporters::Exporters;
use crate::mimir;
use crate::program::signal;
use crate::prometheus::{Storage, free_port};
use crate::store::{Place, Process, Store};

/// The replicas, their sidecars and the querier.
#[derive(Debug)]
pub(crate) struct Replicas {
    replicas: [Store; 2],
    _sidecars: Vec<Process>,
    _query: Process,
    url: String,
}

impl Replicas {
    /// Starts all of it; the first replica also writes to Mimir.
    pub(crate) async fn start(nodes: &Exporters, mimir: &Store) -> Self {
        let program = built("prometheus");
        let config = |replica: &str| {
            let labels = format!("scrape_timeout: 1s, external_labels: {{replica: {replica}}}}}");
            nodes.scrapes().replacen("scrape_timeout: 1s}", &labels, 1)
        };
        let first = config("a") + &mimir::remote_write(mimir);
        let replicas = [
            Storage::of("Prometheus 3", &program).start(&first).await,
            Storage::of("Prometheus 3, second", &program)
                .start(&config("b"))
                .await,
        ];
        let thanos = built("thanos");
        let mut sidecars = Vec::new();
        let mut endpoints = Vec::new();
        for store in &replicas {
            let (http, grpc) = (free_port(), free_port());
            let place = Place::new("Thanos sidecar");
            let arguments = [
                "sidecar".to_owned(),
                format!("--prometheus.url={}", store.url),
                format!("--tsdb.path={}", place.path("data").display()),
                format!("--http-address=127.0.0.1:{http}"),
                format!("--grpc-address=127.0.0.1:{grpc}"),
                "--log.level=warn".to_owned(),
            ];
            std::fs::create_dir(place.path("data")).unwrap();
            let ready = format!("http://127.0.0.1:{http}/-/ready");
            sidecars.push(place.start(&thanos, arguments, ready).await);
            endpoints.push(format!("--endpoint=127.0.0.1:{grpc}"));
        }
        let (http, grpc) = (free_port(), free_port());
        let mut arguments = vec![
            "query".to_owned(),
            format!("--http-address=127.0.0.1:{http}"),
            format!("--grpc-address=127.0.0.1:{grpc}"),
            "--query.replica-label=replica".to_owned(),
            "--log.level=warn".to_owned(),
        ];
        arguments.extend(endpoints);
        let url = format!("http://127.0.0.1:{http}");
        let ready = format!("{url}/-/ready");
        let query = Place::new("Thanos query").start(&thanos, arguments, ready);
        Self {
            replicas,
            _query: query.await,
            _sidecars: sidecars,
            url,
        }
    }

    /// Only the first replica.
    pub(crate) fn first(&self) -> Store {
        Store::new("Prometheus 3", self.replicas[0].url.clone(), Vec::new())
    }

    /// Thanos with deduplication of the replicas' series.
    pub(crate) fn deduplicated(&self) -> Store {
        Store::new("Thanos, deduplicated", self.url.clone(), Vec::new())
    }

    /// Thanos with the series of both replicas.
    pub(crate) fn all(&self) -> Store {
        let url = format!("{}?dedup=false", self.url);
        Store::new("Thanos, not deduplicated", url, Vec::new())
    }

    /// Stops the second replica, so that it no longer answers.
    pub(crate) fn freeze(&mut self) {
        signal(self.replicas[1].processes[0].id(), "STOP");
    }

    /// Continues the second replica.
    pub(crate) fn thaw(&mut self) {
        signal(self.replicas[1].processes[0].id(), "CONT");
    }

    /// Kills the second replica.
    pub(crate) fn kill(&mut self) {
        self.replicas[1].kill();
    }
}
