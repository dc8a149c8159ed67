//! The past of an autoscaler's workload.

use apimachinery::duration::format_duration;
use gpu_metrics::policy::DeviceValue;
use hpa::counted;

use crate::Failure;
use crate::history::History;
use crate::history::autoscaler::RecordedAutoscaler;
use crate::history::owners::Owners;
use crate::history::period::Period;
use crate::replay::{Gather, Past, Plan};

use super::{BacktestArgs, rule};

/// The number of times, evenly spread over the period, at which series of rules are searched.
const LOOKS: u32 = 8;

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
        let nothing = || {
            Failure::Failed(format!(
                "no GPU reading for {} {} in namespace {}: check the name, the retention of the \
                 store, that series name pods (check --explain GM402), and that kube_pod_owner is \
                 scraped, unless names of pods tell the workload",
                scaled.kind, scaled.name, plan.hpa.namespace
            ))
        };
        let ends = args.period.ends();
        // Where a rule gives the metric, GPUs tell the pods.
        let value = plan
            .metric
            .map_or(DeviceValue::MemoryUtilization, |it| it.value);
        let queries = history.of_devices(value, Some(&plan.hpa.namespace));
        let seen = history.scrape_interval(&queries, ends).await?;
        let step = seen.ok_or_else(nothing)?;
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
        let (pods, source) = gather.pods();
        let recorded = RecordedAutoscaler::read(history, &plan.hpa, ends).await?;
        let ordered = recorded.ordered();
        let replicas = match ordered.is_empty() {
            true => "the pods that held GPUs",
            false => "kube-state-metrics",
        };
        gather.order(&ordered);
        let mut past = gather.finish();
        let mut demand = format!("the sum of {}", queries.names);
        if plan.metric.is_none() {
            let looks = Period::of(ends, ends[1].since(ends[0]) / LOOKS)?;
            let names: Vec<&str> = pods.iter().map(|it| &**it).collect();
            let query = rule::query(history, plan, &names, looks).await?;
            let values = history.read(&query, period).await?;
            past.set_demand(&values, plan.is_of_object());
            demand = match plan.is_of_pods() {
                true => "the sum of the metric's values of these pods".to_owned(),
                false => query,
            };
        }
        if pods.is_empty() || !past.trim() {
            return Err(nothing());
        }
        let notes = vec![
            format!("scraped every {}", format_duration(step)),
            format!(
                "{} of {} {}; owners of pods are from {source}",
                counted(pods.len(), "pod"),
                scaled.kind,
                scaled.name
            ),
            format!("demand is {demand}"),
            format!("recorded replicas are those of {replicas}"),
        ];
        Ok(Self { past, notes })
    }
}
