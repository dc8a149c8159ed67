//! Autoscalers, and why each wants the replicas that it wants.

use std::collections::BTreeSet;
use std::sync::Arc;

use maud::{Markup, html};

use super::html::{cell, headings, name, notes, table};
use super::query::link;
use super::{Ask, Content};
use crate::cli::Failure;
use crate::cli::cluster::encode;
use crate::cli::explain::hpa::Decision;
use crate::cli::top::objects::{Hpa, Objects};

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let place = ask.namespace.as_ref();
    let place = place.map_or_else(String::new, |it| format!("namespaces/{}/", encode(it)));
    let mut objects = Objects::default();
    objects.autoscalers(&ask.cluster, &place).await?;
    let scaled = objects.hpas.iter();
    let mut all: Vec<(&str, &str, &Hpa)> = scaled
        .flat_map(|((namespace, of), hpas)| {
            hpas.iter()
                .map(move |hpa| (namespace.as_str(), of.as_str(), hpa))
        })
        .collect();
    all.sort_by_key(|(namespace, _, hpa)| (*namespace, &hpa.name));
    let unwell = all.iter().filter(|(.., hpa)| !condition(hpa).0).count();
    let whose = ask.namespace.as_ref();
    let whose = whose.map_or_else(
        || "all namespaces".to_owned(),
        |it| format!("namespace {it}"),
    );
    if all.is_empty() && objects.notes.is_empty() {
        objects.notes.insert(format!(
            "{whose}: there is no HorizontalPodAutoscaler; a server that has metrics alone (demo) has none"
        ));
    }
    let names = [
        "NAMESPACE",
        "NAME",
        "SCALES",
        "METRIC",
        "VALUE",
        "TARGET",
        "REPLICAS",
        "WANTED",
        "MIN–MAX",
        "CONDITION",
    ];
    let rows: Vec<Vec<Markup>> = all.iter().map(row).collect();
    Ok(Content {
        title: format!("HPAs of {whose}"),
        status: match rows.len() {
            0 if !objects.notes.is_empty() => "no autoscaler is shown".to_owned(),
            count => format!("{count} autoscalers, {unwell} of them unwell"),
        },
        body: html! {
            @if !rows.is_empty() { (table("Autoscalers by their first metric, as the controller wrote it", &headings(&names), &rows)) }
            (notes(&objects.notes))
        },
    })
}

fn row((namespace, of, hpa): &(&str, &str, &Hpa)) -> Vec<Markup> {
    let count = |it: Option<i64>| it.map_or_else(|| "–".to_owned(), |it| it.to_string());
    let [current, target] = hpa.sides();
    let metric = hpa.metric.as_deref().unwrap_or("–");
    let metric = match hpa.others {
        0 => metric.to_owned(),
        others => format!("{metric} +{others}"),
    };
    let (is_well, words) = condition(hpa);
    let mark = if is_well { "✓" } else { "×" };
    vec![
        cell(namespace),
        name(
            &hpa.name,
            &link("hpa", [("namespace", *namespace), ("name", &hpa.name)]),
        ),
        cell(of),
        cell(&metric),
        cell(&current),
        cell(&target),
        cell(&count(hpa.replicas)),
        cell(&count(hpa.desired.map(i64::from))),
        cell(&format!(
            "{}–{}",
            count(hpa.min.or(Some(1))),
            count(hpa.max)
        )),
        html! { td class=(if is_well { "well" } else { "unwell" }) { (mark) " " (words) } },
    ]
}

/// Whether it scales, and the condition that says so in its own words.
fn condition(hpa: &Hpa) -> (bool, String) {
    let word = |it: &k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition| {
        let reason = it.reason.as_deref().unwrap_or_default();
        format!("{} {} {reason}", it.type_, it.status)
    };
    let mut all = hpa.conditions.iter();
    let failing = all
        .clone()
        .find(|it| it.type_ != "ScalingLimited" && it.status != "True");
    let limited = all
        .clone()
        .find(|it| it.type_ == "ScalingLimited" && it.status == "True");
    let active = all.find(|it| it.type_ == "ScalingActive");
    match (failing, limited.or(active)) {
        (Some(failing), _) => (false, word(failing)),
        (None, Some(other)) => (true, word(other)),
        (None, None) => (false, "the controller has said nothing so far".to_owned()),
    }
}

/// One sync, step by step.
pub(super) async fn decision(ask: Arc<Ask>) -> Result<Content, Failure> {
    let (namespace, hpa) = (ask.need("namespace")?, ask.need("name")?);
    let decision = Decision::of(&ask.cluster, (namespace, hpa)).await?;
    let number = |it: Option<i32>| it.map_or_else(|| "–".to_owned(), |it| it.to_string());
    let [computed, written] = [decision.trace.desired, decision.written].map(number);
    let conditions = decision.trace.conditions.iter().map(|it| {
        let status = if it.status { "True" } else { "False" };
        [it.type_, status, it.reason, &it.message]
            .map(cell)
            .to_vec()
    });
    let conditions: Vec<Vec<Markup>> = conditions.collect();
    let told: BTreeSet<String> = decision.otherwise.iter().cloned().collect();
    Ok(Content {
        title: format!("Why these replicas: {namespace}/{hpa}"),
        status: format!(
            "desired replicas: {computed} by this computation, {written} written by the controller"
        ),
        body: html! {
            dl.tiles {
                div { dt { "by this computation" } dd { (computed) } }
                div { dt { "written by the controller" } dd { (written) } }
            }
            h2 { "What the controller computes" }
            ol.steps { @for sentence in decision.trace.sentences() { li { (sentence) } } }
            h2 { "Conditions" }
            (table("Conditions by this computation", &headings(&["TYPE", "STATUS", "REASON", "MESSAGE"]), &conditions))
            (notes(&told))
            h2 { "Assumed" }
            ul.notes { @for assumed in &decision.assumed { li { (assumed) } } }
        },
    })
}
