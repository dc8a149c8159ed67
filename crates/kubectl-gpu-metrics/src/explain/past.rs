//! The value of an object at a time of the past, computed by the server's own code from the
//! samples in Prometheus.

use std::time::Duration;

use apimachinery::duration::parse_duration;
use apimachinery::kinds::Kind;
use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::{ExplainedValue, Explanation, Question};
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;

use crate::Failure;
use crate::document::Document;
use crate::history::History;
use crate::history::owners::Owners;

use super::{ExplainArgs, value as values};

/// Owners of pods are read over this time.
const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn document(
    args: &ExplainArgs,
    kind: Option<&Kind>,
    at: Timestamp,
) -> Result<Document, Failure> {
    let kind = kind.filter(|kind| kind.namespaced || *kind.plural == *"namespaces");
    let kind = kind.ok_or_else(|| {
        let which = "--at explains pods, workloads, namespaces and autoscalers";
        Failure::Usage(which.to_owned())
    })?;
    let window = window(args.selector.as_deref())?;
    let history = History::open(&args.prometheus, &args.cluster).await?;
    let own = args.cluster.namespace.as_deref();
    let own = own.or(history.cluster.as_ref().map(|it| &*it.namespace));
    let own = own.unwrap_or("default");
    let (namespace, name) = args.name.split_once('/').unwrap_or((own, &args.name));
    let (scope, within) = match kind.namespaced {
        true => (namespace, Some(namespace)),
        false => (name, None),
    };
    let metric = args.metric.as_deref().unwrap_or(MEMORY_UTILIZATION);
    let specs = history.metrics();
    let spec = specs.iter().find(|spec| spec.name == metric);
    let spec = spec.ok_or_else(|| {
        Failure::Usage(format!(
            "{metric} is no metric of GPUs: explain it now, and send its query to Prometheus with \
             the time"
        ))
    })?;
    let owners = Owners::read(&history, [at - HOUR, at], Some(scope), None).await?;
    let recording = history.record(scope, &owners, at).await?;
    let object = recording.find(&kind.kind, within, name);
    let of = match within {
        Some(namespace) => format!("{} {namespace}/{name}", kind.resource()),
        None => format!("{} {name}", kind.resource()),
    };
    let value = object.and_then(|it| recording.value(it, (&spec.measure, window), at));
    let explained = object.map(|object| {
        recording.snapshot.explain(&Question {
            object,
            measure: &spec.measure,
            window,
            is_narrowed: false,
            names_pods: true,
            now: at,
        })
    });
    let mut document = values::document(&Explanation {
        metric: metric.to_owned(),
        no_value: value.is_none().then(|| absence(object, &of)),
        of,
        value: value.map(|value: Value| ExplainedValue::of(&value, at)),
        ..explained.unwrap_or_default()
    });
    document.title = format!("{}, {}", document.title, at.date());
    document.notes([format!(
        "Pods are those that {} name, and their owners are from {}.",
        match recording.has_pods {
            true => "kube-state-metrics and series of GPUs",
            false => "series of GPUs",
        },
        owners.source
    )]);
    Ok(document)
}

fn absence(object: Option<&Object>, of: &str) -> String {
    match object {
        None => format!("no series of that time name a GPU of {of}"),
        Some(object) if object.is_starting => {
            format!("{of} had not been Ready since its containers started")
        }
        Some(_) => "the window has too few readings".to_owned(),
    }
}

/// The window of a metric selector, which has nothing else.
fn window(selector: Option<&str>) -> Result<Option<Duration>, Failure> {
    let Some(selector) = selector else {
        return Ok(None);
    };
    let window = selector.strip_prefix("window=");
    let window = window.and_then(|text| parse_duration(text).ok());
    let only = || Failure::Usage("--at takes the selector window=DURATION only".to_owned());
    window.map(Some).ok_or_else(only)
}
