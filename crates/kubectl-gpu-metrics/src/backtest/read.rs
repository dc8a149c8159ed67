//! The past of an autoscaler's workload.

use std::time::Duration;

use apimachinery::duration::format_duration;
use apimachinery::promql::{quote, quote_regex};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

use crate::Failure;
use crate::history::owners::Owners;
use crate::history::period::Period;
use crate::history::{History, scopes};
use crate::replay::{Gather, Past, Plan};

use super::BacktestArgs;

/// Assumed if no data shows the scrape interval.
const STEP: Duration = Duration::from_secs(15);

/// Names of workloads beyond this length may be truncated in the names of their pods.
const WHOLE_NAME: usize = 45;

#[derive(Debug)]
pub(super) struct Read {
    pub(super) past: Past,
    /// Assumptions, and their sources.
    pub(super) notes: Vec<String>,
}

impl Read {
    pub(super) async fn of(
        history: &History,
        args: &BacktestArgs,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        let scaled = &plan.hpa.scaled;
        let mut notes = Vec::new();
        let ends = args.period.ends();
        let queries = history.of_devices(plan.utilization, &scopes_of(plan));
        let seen = history.scrape_interval(&queries, ends).await?;
        let step = seen.unwrap_or(STEP);
        let how = if seen.is_some() { "seen" } else { "assumed" };
        notes.push(format!("scraped every {}, as {how}", format_duration(step)));
        let period = Period::of(ends, step)?;
        let owners = Owners::read(history, ends, Some(&plan.hpa.namespace), None).await?;
        let mut gather = Gather::new(plan, owners, period);
        // A reading is valid on the server for this long, shorter than Prometheus' five
        // minutes.
        let fresh = history.config.policy.freshness.max(3 * step);
        let take = |range, rows| gather.take(&rows, range);
        history
            .each_of_devices(&queries, fresh, period, take)
            .await?;
        let (pods, evidence) = gather.evidence();
        let order = order(history, plan, period).await?;
        let source = if order.is_empty() {
            "the pods that held GPUs"
        } else {
            "kube-state-metrics"
        };
        gather.order(order);
        let mut past = gather.finish();
        if pods == 0 || !past.trim() {
            return Err(Failure::Failed(format!(
                "no GPU reading for {} {} in namespace {}: check the name, the retention of the \
                 store, that series name pods (check --explain GM402), and that kube_pod_owner is \
                 scraped, unless names of pods tell the workload",
                scaled.kind, scaled.name, plan.hpa.namespace
            )));
        }
        notes.extend([
            format!(
                "{pods} pods of {} {}, {}",
                scaled.kind,
                scaled.name,
                evidence.words()
            ),
            format!("demand is the sum of {}", queries.names),
            format!("recorded replicas are those of {source}"),
        ]);
        Ok(Self { past, notes })
    }
}

/// The series of the workload's pods.
fn scopes_of(plan: &Plan) -> [String; 5] {
    let letters = plan.hpa.scaled.name.chars().take(WHOLE_NAME);
    let pods = format!("{}.*", quote_regex(&letters.collect::<String>()));
    scopes(&plan.hpa.namespace, &pods)
}

/// The replicas that were ordered.
async fn order(
    history: &History,
    plan: &Plan,
    period: Period,
) -> Result<Vec<(Timestamp, f64)>, Failure> {
    let scaled = &plan.hpa.scaled;
    let (kind, label) = (scaled.kind.to_ascii_lowercase(), quote(&scaled.name));
    if !kind.bytes().all(|it| it.is_ascii_alphanumeric()) {
        return Ok(Vec::new());
    }
    let field = match scaled.kind.as_str() {
        "StatefulSet" => "replicas",
        _ => "spec_replicas",
    };
    let query = format!(
        "max(kube_{kind}_{field}{{namespace={},{kind}={label}{}}})",
        quote(&plan.hpa.namespace),
        history.matchers()
    );
    let answers = history.read(&query, period).await?;
    let series = answers.iter().flat_map(Batch::iter);
    let samples = series.flat_map(|series| series.samples);
    Ok(samples.map(|sample| (sample.at, sample.value)).collect())
}
