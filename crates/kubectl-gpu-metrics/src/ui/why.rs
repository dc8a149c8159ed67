//! The explanation of a value: the page of `explain`.

use std::sync::Arc;

use maud::{Markup, html};

use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::Explanation;

use crate::Failure;
use crate::chart::sparkline;
use crate::explain::ExplainedMetric;
use crate::explain::text::{self, clock, number};
use crate::values::{self, EXTERNALLY};

use super::{Ask, Content};

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let resource = ask.need("resource")?;
    let metric = ask.query.word("metric").unwrap_or(MEMORY_UTILIZATION);
    let of = match resource {
        EXTERNALLY => (None, Some(ask.cluster.namespace.as_str()), ""),
        // For objects without a namespace, the selected namespace is ignored.
        _ => (
            Some(resource.into()),
            ask.query.word("namespace"),
            ask.need("name")?,
        ),
    };
    let asked = ExplainedMetric { metric, of };
    let choice = choice(&ask, resource, metric).await;
    let said = asked.read(&ask.cluster, &asked.path(None)).await?;
    let status = match (&said.value, &said.no_value) {
        (Some(value), _) => format!("{metric} of {} is {}", said.of, number(value.number)),
        (None, Some(reason)) => reason.clone(),
        (None, None) => "no value".to_owned(),
    };
    Ok(Content {
        title: format!("Why: {metric} of {}", said.of),
        status,
        body: html! {
            (choice)
            (chart(&said))
            pre { (text::of(&said)) }
        },
    })
}

async fn choice(ask: &Ask, resource: &str, metric: &str) -> Markup {
    let served = values::served(&ask.cluster).await.unwrap_or_default();
    let known = served.iter().filter(|(_, on)| on.contains(resource));
    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
    let kept = ["namespace", "name"].map(|name| (name, ask.query.word(name)));
    html! {
        form action="./why" {
            input type="hidden" name="resource" value=(resource);
            @for (name, value) in kept {
                @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
            }
            label for="metric" { "Metric " }
            select #metric name="metric" {
                @for name in known { option selected[name == metric] { (name) } }
            }
            " " button { "Show" }
        }
    }
}

/// The chart of a percentage ends at 100.
fn ceiling(metric: &str) -> f64 {
    let is_percent = metric.contains("utilization") || metric.contains("percent");
    match is_percent && !metric.ends_with("_sum") {
        true => 100.0,
        false => 0.0,
    }
}

fn chart(said: &Explanation) -> Markup {
    let (Some(first), Some(last)) = (said.instants.first(), said.instants.last()) else {
        return html! {};
    };
    let numbers: Vec<Option<f64>> = said.instants.iter().map(|it| it.number).collect();
    let ceiling = ceiling(&said.metric);
    let top = numbers.iter().flatten().copied().fold(ceiling, f64::max);
    html! {
        figure {
            (sparkline(&format!("{} of {}", said.metric, said.of), &numbers, ceiling))
            figcaption { "0 to " (number(top)) ", from " (clock(&first.time)) " to " (clock(&last.time)) }
        }
    }
}
