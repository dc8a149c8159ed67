//! Values of a past time equal those that were served then.

use std::sync::Arc;

use super::scene::{Scene, at, policy};
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Sample;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::signal::SignalId;
use gpu_metrics_apiserver::provider::gpu::GpuProvider;
use gpu_metrics_apiserver::provider::{Effort, Error, Objects, Provider, Query, Which};

/// Scrapes of a quarter of an hour; readings are kept for ten minutes.
const SCRAPES: u32 = 60;

type Told = Result<Vec<(String, f64, Timestamp)>, Error>;

/// The values of a metric: of all pods, of their Deployment, of the cluster.
fn told(provider: &dyn Provider, metric: &str, selector: &str, now: Timestamp) -> Told {
    let everything = Selector::everything();
    let selector = Selector::parse(selector).unwrap();
    let query = |metric| Query {
        metric,
        selector: &selector,
        now,
        effort: Effort::Full,
        fetched: None,
    };
    let mut told = Vec::new();
    for (resource, which) in [
        ("pods", Which::Matching(&everything)),
        ("deployments.apps", Which::Named("d")),
    ] {
        let objects = Objects {
            resource,
            namespace: Some("n"),
            which,
        };
        provider.custom(objects, &query(metric), &mut |item| {
            told.push((item.name.to_owned(), item.value.value, item.value.at));
        })?;
    }
    let of_cluster = format!("cluster_{metric}");
    provider.external("n", &query(&of_cluster), &mut |item| {
        told.push((item.metric.to_owned(), item.value.value, item.value.at));
    })?;
    Ok(told)
}

/// Two pods whose load changes with each scrape, with the values one and eight
/// seconds after each. Returns the final state and all served values. The second pod
/// falls silent after `until` scrapes.
fn history(until: u32) -> (GpuProvider, Vec<(Timestamp, [Told; 2])>) {
    let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None), ("n/q", None)]);
    let provider = GpuProvider::new(&metrics::built_in());
    let mut served = Vec::new();
    for scrape in 0..SCRAPES {
        let time = 15.0 * f64::from(scrape);
        for (pod, factor, until) in [("p", 37, SCRAPES), ("q", 61, until)] {
            if scrape >= until {
                continue;
            }
            let labels =
                format!("UUID={pod} Hostname=node-1 exported_namespace=n exported_pod={pod}");
            let sample = Sample {
                at: at(time),
                value: f64::from(scrape * factor % 100),
            };
            scene.feed(SignalId::MEM_COPY_UTIL, &labels, &[sample]);
        }
        for later in [1.0, 8.0] {
            let now = at(time + later);
            provider.publish(Arc::new(scene.snapshot_at(now)));
            served.push((now, told_by(&provider, now)));
        }
    }
    (provider, served)
}

fn told_by(provider: &dyn Provider, now: Timestamp) -> [Told; 2] {
    ["gpu_memory_utilization", "gpu_memory_utilization_sum"]
        .map(|metric| told(provider, metric, "", now))
}

fn is_out_of_reach<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::OutOfReach { .. }))
}

#[test]
fn values_computed_again_are_those_that_were_served() {
    let (provider, served) = history(SCRAPES);
    let now = served.last().unwrap().0;
    let mut same = 0;
    for (then, was) in &served {
        let Ok(past) = provider.as_of(*then, now) else {
            assert!(is_out_of_reach(&provider.as_of(*then, now)));
            continue;
        };
        assert!(past.reach <= *then && past.snapshot == *then);
        assert_eq!(&told_by(&*past.provider, *then), was, "as of {then}");
        same += 1;
    }
    // Ten minutes are kept for the longest window, and one minute of them is the
    // window.
    assert_eq!(same, 2 * ((600 - 60) / 15) + 1, "of {}", served.len());
}

#[test]
fn what_is_not_held_and_what_is_to_come_is_refused() {
    let (provider, served) = history(SCRAPES);
    let now = served.last().unwrap().0;
    let later = Timestamp::from_millis(now.millis() + 1);
    assert!(is_out_of_reach(&provider.as_of(later, now)));
    let (then, _) = served[served.len() - 20];
    let past = provider.as_of(then, now).unwrap();
    let metric = "gpu_memory_utilization";
    assert!(told(&*past.provider, metric, "window=5m", then).is_ok());
    let refused = told(&*past.provider, metric, "window=10m", then);
    assert!(is_out_of_reach(&refused), "{refused:?}");
    let fresh = GpuProvider::new(&metrics::built_in());
    assert!(matches!(fresh.as_of(then, now), Err(Error::NotReady(_))));
}
