//! Autoscalers, and the reason for the replicas that each wants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
use maud::{Markup, html};

use gpu_metrics::devices::{DeviceList, DevicesOf};

use crate::Failure;
use crate::explain::hpa::Decision;
use crate::table::count;
use crate::top::fetch;
use crate::top::objects::{ClusterObjects, HpaCell};
use crate::top::{TopArgs, What};
use crate::values::{self, Item, List, of_object};

use super::html::{cell, headings, name, notes, table};
use super::query::link;
use super::{Ask, Content};

/// Prefix of the controller's message that it has no metric.
const NOT_COMPUTED: &str = "the HPA was unable to compute the replica count: ";

const SIDE_BY_SIDE: usize = 8;

/// The columns; a narrow window shows the first of them.
const HEADING: &str = "NAME VALUE CONDITION REPLICAS WANTED MIN–MAX METRIC SCALES";

/// The state of an autoscaler; the page sorts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Stuck,
    /// It wants more replicas than its maximum.
    AtMaximum,
    /// Some of its replicas have no pod with a value.
    Missing,
    NoCondition,
    Healthy,
}

impl State {
    /// The state and its description. `there` is the number of its pods with a value, if known.
    fn of(hpa: &HpaCell, there: Option<usize>) -> (Self, String) {
        let is = |it: &&HorizontalPodAutoscalerCondition, type_: &str, status: &str| {
            it.type_ == type_ && it.status == status
        };
        let reason = |it: &HorizontalPodAutoscalerCondition| it.reason.clone().unwrap_or_default();
        let mut all = hpa.conditions.iter();
        let failing = all
            .clone()
            .find(|it| is(it, "AbleToScale", "False") || is(it, "ScalingActive", "False"));
        if let Some(failing) = failing {
            let message = failing.message.as_deref().unwrap_or_default();
            let message = message.strip_prefix(NOT_COMPUTED).unwrap_or(message);
            let reason = reason(failing);
            let is_metric = reason.starts_with("FailedGet") && failing.type_ == "ScalingActive";
            let words = match reason.as_str() {
                "ScalingDisabled" => "disabled: its target has no replicas".to_owned(),
                _ if is_metric => format!("no metric: {message}"),
                _ => format!("{reason}: {message}"),
            };
            return (Self::Stuck, words);
        }
        let limited = all.find(|it| is(it, "ScalingLimited", "True")).map(reason);
        let short = there.zip(hpa.replicas);
        let short = short.filter(|(there, replicas)| (*there as i64) < i64::from(*replicas));
        let (state, words) = match (limited.as_deref(), short) {
            _ if hpa.conditions.is_empty() => {
                (Self::NoCondition, "the controller has set no condition yet")
            }
            (Some("TooManyReplicas"), _) => {
                let words = format!("wants more than its maximum of {}", hpa.max);
                return (Self::AtMaximum, words);
            }
            (_, Some((there, replicas))) => {
                let words = format!("{there} of {replicas} pods have a value");
                return (Self::Missing, words);
            }
            (Some("TooFewReplicas"), _) => (Self::Healthy, "at its minimum"),
            (Some(_), _) => (Self::Healthy, "scales as fast as its policies allow"),
            (None, _) => (Self::Healthy, "able to scale"),
        };
        (state, words.to_owned())
    }
}

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let everywhere = ask.namespace.is_none();
    let args = TopArgs::all(What::Workloads, everywhere);
    let mut objects = ClusterObjects::read(&args, &ask.cluster).await?;
    let pods = fetch::list(&TopArgs::all(What::Pods, everywhere), &ask.cluster).await;
    let pods = pods.unwrap_or_else(|failure| {
        objects.notes.insert(failure.to_string());
        DeviceList::default()
    });
    let with_value = with_value(&ask, &objects).await;
    let mut all: Vec<Shown<'_>> = Vec::new();
    for ((namespace, of), hpas) in &objects.hpas {
        all.extend(hpas.iter().map(|hpa| {
            let there = there(&pods.items, (namespace, of, hpa), &with_value);
            (State::of(hpa, there), &**namespace, &**of, hpa)
        }));
    }
    all.sort_by_key(|((state, _), namespace, _, hpa)| (*state, *namespace, &*hpa.name));
    let is_unwell = |((state, _), ..): &&Shown<'_>| *state != State::Healthy;
    let unwell = all.iter().filter(is_unwell).count();
    let whose = match &ask.namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "all namespaces".to_owned(),
    };
    if all.is_empty() && objects.notes.is_empty() {
        let none = format!("{whose}: there is no HorizontalPodAutoscaler");
        objects.notes.insert(none);
    }
    let names: Vec<&str> = HEADING.split(' ').collect();
    let rows: Vec<Vec<Markup>> = all.iter().map(row).collect();
    Ok(Content {
        title: format!("HPAs of {whose}"),
        status: match rows.len() {
            0 => "no autoscaler is shown".to_owned(),
            count => format!("{count} autoscalers, {unwell} of them with problems"),
        },
        body: html! {
            @if !rows.is_empty() { (table("Autoscalers by their first metric, as the controller wrote it; VALUE: current/target", &headings(&names), &rows)) }
            (notes(&objects.notes))
        },
    })
}

/// The pods that have a value, by namespace and metric.
type WithValue = BTreeMap<(String, String), Vec<String>>;

async fn with_value(ask: &Ask, objects: &ClusterObjects) -> WithValue {
    let asked = objects.hpas.iter().flat_map(|((namespace, _), hpas)| {
        let metrics = hpas.iter().filter(|hpa| hpa.of_pods);
        metrics.filter_map(|hpa| Some((namespace.clone(), hpa.metric.clone()?)))
    });
    let asked: BTreeSet<(String, String)> = asked.collect();
    let lists = asked.into_iter().map(|(namespace, metric)| async move {
        let path = of_object(("pods", Some(&namespace)), "*", &metric);
        // If no pod has a value, the controller's condition says so.
        let list = ask.cluster.read::<List<Item>>(&path).await.ok()?;
        Some(((namespace, metric), values::names(list.items)))
    });
    let lists = stream::iter(lists).buffer_unordered(SIDE_BY_SIDE);
    lists.filter_map(std::future::ready).collect().await
}

/// The number of an autoscaler's pods that have a value of its metric, or that run if it
/// has no Pods metric; `None` if its pods are unknown.
fn there(
    pods: &[DevicesOf],
    (namespace, of, hpa): (&str, &str, &HpaCell),
    with_value: &WithValue,
) -> Option<usize> {
    let key = (namespace.to_owned(), hpa.metric.clone()?);
    let named = with_value.get(&key).filter(|_| hpa.of_pods);
    let runs = |pod: &DevicesOf| pod.running == Some(true);
    let is_there = |pod: &&DevicesOf| named.map_or(runs(pod), |it| it.contains(&pod.name));
    let is_of = |it: &&DevicesOf| {
        it.namespace.as_deref() == Some(namespace) && it.workloads.iter().any(|it| it == of)
    };
    let pods: Vec<&DevicesOf> = pods.iter().filter(is_of).collect();
    (!pods.is_empty()).then(|| pods.into_iter().filter(is_there).count())
}

/// An autoscaler with its state, its namespace and its target.
type Shown<'a> = ((State, String), &'a str, &'a str, &'a HpaCell);

fn row(((state, words), namespace, of, hpa): &Shown<'_>) -> Vec<Markup> {
    let metric = hpa.metric.as_deref().unwrap_or("–");
    let metric = match hpa.others {
        0 => metric.to_owned(),
        others => format!("{metric} +{others}"),
    };
    let (class, mark) = match state {
        State::Healthy => ("words well", "✓"),
        _ => ("words unwell", "×"),
    };
    vec![
        name(
            &format!("{namespace}/{}", hpa.name),
            &link("hpa", [("namespace", *namespace), ("name", &hpa.name)]),
        ),
        html! { td.n { (hpa.sides().join("/")) } },
        html! { td class=(class) { (mark) " " (words) } },
        cell(&count(hpa.replicas)),
        cell(&count(hpa.desired)),
        cell(&format!("{}–{}", hpa.min, hpa.max)),
        cell(&metric),
        cell(of),
    ]
}

pub(super) async fn decision(ask: Arc<Ask>) -> Result<Content, Failure> {
    let (namespace, hpa) = (ask.need("namespace")?, ask.need("name")?);
    let decision = Decision::of(&ask.cluster, (namespace, hpa)).await?;
    let [computed, written] =
        [decision.trace.desired, decision.written_desired_replicas].map(count);
    let by_computation = decision.trace.conditions.iter().map(|it| {
        let status = if it.status { "True" } else { "False" };
        [it.type_, status, it.reason, &it.message]
            .map(cell)
            .to_vec()
    });
    let by_controller = decision.written_conditions.iter().map(|it| {
        let [reason, message] =
            [&it.reason, &it.message].map(|it| it.as_deref().unwrap_or_default());
        [&*it.type_, &*it.status, reason, message]
            .map(cell)
            .to_vec()
    });
    let conditions: [Vec<Vec<Markup>>; 2] = [by_computation.collect(), by_controller.collect()];
    let columns = headings(&["TYPE", "STATUS", "REASON", "MESSAGE"]);
    Ok(Content {
        title: format!("Why these replicas: {namespace}/{hpa}"),
        status: decision.result(),
        body: html! {
            dl.tiles {
                div { dt { "by this computation" } dd { (computed) } }
                div { dt { "written by the controller" } dd { (written) } }
            }
            h2 { "What the controller computes" }
            ol.steps { @for sentence in decision.trace.sentences() { li { (sentence) } } }
            h2 { "Conditions" }
            (table("Conditions by this computation", &columns, &conditions[0]))
            (table("Conditions written by the controller", &columns, &conditions[1]))
            h2 { "Assumed" }
            ul.notes { @for assumed in &decision.assumed { li { (assumed) } } }
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_that_cannot_reach_its_target_has_a_state_that_says_why() {
        // Type, status and reason of each condition | the state and its description.
        for row in [
            "AbleToScale True Ready, ScalingActive False FailedGetPodsMetric, ScalingLimited True TooManyReplicas | Stuck no metric: it says",
            "AbleToScale False FailedGetScale | Stuck FailedGetScale: it says",
            "AbleToScale True Ready, ScalingLimited True TooManyReplicas | AtMaximum wants more than its maximum of 4",
            " | NoCondition the controller has set no condition yet",
            "AbleToScale True Ready, ScalingActive True ValidMetricFound | Healthy able to scale",
            "AbleToScale True Ready, ScalingLimited True TooFewReplicas | Healthy at its minimum",
            "AbleToScale True Ready | Missing 3 of 4 pods have a value",
        ] {
            let (conditions, expected) = row.split_once(" | ").unwrap();
            let conditions = conditions.split(", ").filter_map(|condition| {
                let mut words = condition.split(' ');
                let (type_, status, reason) = (words.next()?, words.next()?, words.next()?);
                Some(json!({"type": type_, "status": status, "reason": reason, "message": "it says"}))
            });
            let replicas = if expected.starts_with("Missing") {
                4
            } else {
                3
            };
            let object = json!({
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "train"}, "maxReplicas": 4},
                "status": {"desiredReplicas": 4, "currentReplicas": replicas, "conditions": conditions.collect::<Vec<_>>()},
            });
            let object = serde_json::from_value(object).unwrap();
            let hpa = hpa::Hpa::try_from(&object).unwrap();
            let (state, words) = State::of(&HpaCell::of(hpa), Some(3));
            assert_eq!(format!("{state:?} {words}"), expected, "{row}");
        }
    }
}
