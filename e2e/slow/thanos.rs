//! Two Prometheus 3 that scrape the same exporters, and Thanos on top of them.

use crate::built;
use crate::exporters::Exporters;
use crate::mimir;
use crate::program::signal;
use crate::prometheus::free_port;
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
            Store::prometheus("Prometheus 3", &program, &first).await,
            Store::prometheus("Prometheus 3, second", &program, &config("b")).await,
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
            let mut process = place.start(&thanos, arguments);
            let ready = format!("http://127.0.0.1:{http}/-/ready");
            process.await_ready(&ready).await;
            sidecars.push(process);
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
        let mut query = Place::new("Thanos query").start(&thanos, arguments);
        query.await_ready(&format!("{url}/-/ready")).await;
        Self {
            replicas,
            _sidecars: sidecars,
            _query: query,
            url,
        }
    }

    fn at(name: &str, url: String) -> Store {
        Store {
            name: name.to_owned(),
            url,
            processes: Vec::new(),
        }
    }

    /// Only the first replica.
    pub(crate) fn first(&self) -> Store {
        Self::at("Prometheus 3", self.replicas[0].url.clone())
    }

    /// Thanos with deduplication of the replicas' series.
    pub(crate) fn deduplicated(&self) -> Store {
        Self::at("Thanos, deduplicated", self.url.clone())
    }

    /// Thanos with the series of both replicas.
    pub(crate) fn all(&self) -> Store {
        Self::at(
            "Thanos, not deduplicated",
            format!("{}?dedup=false", self.url),
        )
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
        self.replicas[1].processes[0].kill();
    }
}
