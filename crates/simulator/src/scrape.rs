//! Layer 6: the labels of a scrape, and its times (`gpu_metrics::dcgm`, "After the scrape").

use std::borrow::Cow;
use std::time::Duration;

use super::exporter::{Exporter, Pairs};
use super::machines::Machines;
use super::random::Noise;
use super::scenario::{LabelScheme, dealt};
use apimachinery::time::{Timestamp, millis};

impl LabelScheme {
    /// The labels that service discovery gives a target; words in capitals stand for
    /// values of its exporter.
    const fn target_labels(self) -> &'static str {
        match self {
            Self::HonorFalse | Self::HonorTrue | Self::AzureLowercase | Self::RhoaiRatio => {
                "container=nvidia-dcgm-exporter endpoint=gpu-metrics instance=INSTANCE \
                 job=nvidia-dcgm-exporter namespace=NAMESPACE pod=POD service=nvidia-dcgm-exporter"
            }
            Self::EndpointsAnnotation => {
                "instance=INSTANCE job=kubernetes-service-endpoints namespace=NAMESPACE \
                 node=NODE service=nvidia-dcgm-exporter"
            }
            Self::PodsAnnotation => {
                "app=nvidia-dcgm-exporter instance=INSTANCE job=kubernetes-pods \
                 namespace=NAMESPACE pod=POD"
            }
            Self::OldAnnotation => {
                "app=nvidia-dcgm-exporter instance=INSTANCE job=kubernetes-pods \
                 kubernetes_namespace=NAMESPACE kubernetes_pod_name=POD"
            }
            Self::Gmp => {
                "cluster=gke-a instance=NODE:metrics job=gke-managed-dcgm-exporter \
                 location=europe-west4 project_id=gpu-project"
            }
        }
    }
}

/// One target of one job of one Prometheus.
#[derive(Clone, Debug)]
pub struct ScrapeTarget {
    /// Index of the exporter it scrapes.
    pub exporter: usize,
    pub scheme: LabelScheme,
    pub interval: Duration,
    phase: i64,
    noise: Noise,
    labels: Vec<(&'static str, String)>,
}

/// All targets of a fleet: every exporter once per Prometheus and job.
pub(super) fn targets(machines: &Machines, exporters: &[Exporter]) -> Vec<ScrapeTarget> {
    let path = &machines.scenario.scrape;
    let jobs = 1 + usize::from(path.second_job.is_some());
    let mut targets = Vec::new();
    for replica in 0..path.replicas.max(1) {
        for job in 0..jobs {
            for (exporter, scraped) in exporters.iter().enumerate() {
                let turn = (job, replica);
                targets.push(ScrapeTarget::new(machines, (exporter, scraped), turn));
            }
        }
    }
    targets
}

impl ScrapeTarget {
    fn new(
        machines: &Machines,
        (exporter, scraped): (usize, &Exporter),
        (job, replica): (usize, u32),
    ) -> Self {
        let path = &machines.scenario.scrape;
        let scheme = path.second_job.filter(|_| job == 1);
        let scheme = scheme.or_else(|| dealt(&path.schemes, exporter));
        let scheme = scheme.unwrap_or(LabelScheme::HonorFalse);
        let number = (exporter as u64) << 8 | (job as u64) << 4 | u64::from(replica);
        let noise = machines.noise.at(15).at(number);
        let interval = millis(path.interval).max(1);
        let node = &machines.nodes[scraped.node as usize].name;
        let label = |pair: &'static str| {
            let (name, value) = pair.split_once('=')?;
            let value = value
                .replace("INSTANCE", &scraped.instance)
                .replace("NAMESPACE", scraped.namespace)
                .replace("POD", &scraped.pod)
                .replace("NODE", node);
            let second = if job == 1 && name == "job" { "-2" } else { "" };
            Some((name, value + second))
        };
        let labels = scheme.target_labels().split(' ').filter_map(label);
        let mut labels: Vec<(&'static str, String)> = labels.collect();
        if path.node_label {
            labels.push(("node", node.clone()));
        }
        if path.replicas > 1 {
            labels.push(("prometheus", "monitoring/k8s".to_owned()));
            labels.push(("prometheus_replica", format!("prometheus-k8s-{replica}")));
        }
        Self {
            exporter,
            scheme,
            interval: path.interval,
            phase: i64::try_from(noise.at(1).below(interval.cast_unsigned())).unwrap_or(0),
            noise,
            labels,
        }
    }

    /// The times in `[from, to]` at which it stores a scrape. Failed scrapes are left out.
    pub(super) fn scrapes<'a>(
        &'a self,
        machines: &'a Machines,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<'a> {
        let interval = millis(self.interval).max(1);
        let first = (from.millis() - self.phase).div_euclid(interval);
        let failed_rate = machines.scenario.scrape.failed_rate;
        (first..)
            .map(move |turn| (turn, Timestamp::from_millis(turn * interval + self.phase)))
            .skip_while(move |&(_, at)| at < from)
            .take_while(move |&(_, at)| at <= to)
            .filter(move |&(turn, _)| !self.noise.at(2).at_bucket(turn).chance(failed_rate))
            .map(|(_, at)| at)
    }

    /// The label set of a line in the store, `__name__` among them, sorted by name:
    /// Prometheus' `mutateSampleLabels`.
    pub(super) fn relabel<'a>(&'a self, name: &'a str, exposed: Pairs<'a>) -> Pairs<'a> {
        let honor = self.scheme == LabelScheme::HonorTrue;
        let own = |name: &str| self.labels.iter().any(|(label, _)| *label == name);
        let mut pairs: Pairs<'a> = Vec::with_capacity(1 + exposed.len() + self.labels.len());
        pairs.push((Cow::Borrowed("__name__"), Cow::Borrowed(name)));
        for (name, value) in &self.labels {
            // With honor_labels an exposed label hides the target's, and an empty one is
            // dropped afterwards.
            if !(honor && exposed.iter().any(|(label, _)| label == name)) {
                pairs.push((Cow::Borrowed(*name), Cow::Borrowed(value)));
            }
        }
        for (name, value) in exposed {
            if value.is_empty() {
                continue;
            }
            let name = match !honor && own(&name) {
                true => Cow::Owned(format!("exported_{name}")),
                false => name,
            };
            pairs.push((name, value));
        }
        if self.scheme == LabelScheme::AzureLowercase {
            for (name, _) in &mut pairs {
                if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    *name = Cow::Owned(name.to_ascii_lowercase());
                }
            }
        }
        pairs.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        pairs
    }
}
