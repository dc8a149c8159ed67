//! `explain hpa`: what the autoscaler's controller computes, step by step, from
//! what it would read now.

mod flags;
pub(crate) mod read;

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
use serde::Serialize;

use apimachinery::time::Timestamp;
use cluster_state::clock;
use hpa::stabilise::PastReplicas;
use hpa::trace::SCALED_TO_ZERO;
use hpa::{History, Situation, Trace};

use crate::Failure;
use crate::cluster::Cluster;
use crate::table::count;
use crate::terminal::print;

use super::{ExplainArgs, ExplainOutput};
pub(crate) use flags::{FlagArgs, a_second_or_more};
use read::Reading;

/// What the controller computes now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    namespace: String,
    name: String,
    /// When its input was read.
    at: String,
    /// What the controller's last sync wrote; `None`: it has never computed one.
    pub(crate) written_desired_replicas: Option<i32>,
    pub(crate) written_conditions: Vec<HorizontalPodAutoscalerCondition>,
    desired_replicas: Option<i32>,
    /// Flags of the controller, as given.
    given: Vec<String>,
    pub(crate) assumed: Vec<String>,
    /// The steps of the computation.
    pub trace: Trace,
}

pub(super) async fn run(cluster: &Cluster, args: &ExplainArgs) -> Result<(), Failure> {
    let of = cluster.split(&args.name);
    let mut history: Option<History> = None;
    // The replicas that the controller wrote last, and when.
    let mut scaled: Option<(i32, Option<Timestamp>)> = None;
    // Ctrl-C works also during a read.
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let reading = Reading::of(cluster, of, &args.flags).await?;
        let now = clock::now();
        let is_first = history.is_none();
        let remembered = history.get_or_insert_with(|| as_written(&reading, now));
        if let Ok(scale) = &reading.scale {
            let (replicas, at) = (scale.spec_replicas, reading.hpa.status.scaled_at);
            let (from, since) = *scaled.get_or_insert((replicas, at));
            // The controller writes the scale first, and `lastScaleTime` a moment later.
            if let Some(now) = at.filter(|_| at > since) {
                remembered.scaled(from, replicas, now);
                scaled = Some((replicas, at));
            }
        }
        remembered.scaled_to_zero = reading.hpa.status.is_true(SCALED_TO_ZERO);
        let decision = Decision::new(of, &reading, &args.flags, (remembered, now));
        let text = match args.output {
            ExplainOutput::Json => serde_json::to_string_pretty(&decision)?,
            ExplainOutput::Text => decision.text(args.follow, is_first),
        };
        if !print(&text) || !args.follow {
            return Ok(());
        }
        decision.trace.recommend(remembered, &reading.flags, now);
        tokio::select! {
            () = tokio::time::sleep(reading.flags.sync_period) => {}
            _ = &mut stop => return Ok(()),
        }
    }
}

impl Decision {
    /// One sync now, with the controller's default flags.
    ///
    /// # Errors
    /// When the autoscaler or its target cannot be read.
    pub async fn of(cluster: &Cluster, hpa: (&str, &str)) -> Result<Self, Failure> {
        let flags = FlagArgs::default();
        let reading = Reading::of(cluster, hpa, &flags).await?;
        let now = clock::now();
        let history = as_written(&reading, now);
        Ok(Self::new(hpa, &reading, &flags, (&history, now)))
    }

    fn new(
        (namespace, name): (&str, &str),
        reading: &Reading,
        flags: &FlagArgs,
        (history, now): (&History, Timestamp),
    ) -> Self {
        let trace = Situation {
            hpa: &reading.hpa,
            scale: reading.scale.as_ref().map_err(String::as_str),
            selection: &reading.selection,
            pods: &reading.pods,
            answers: &reading.answers,
            flags: &reading.flags,
            history,
            now,
        }
        .sync();
        let [given, assumed] = assumed(reading, flags);
        let written = &reading.hpa.status;
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            at: now.date(),
            written_desired_replicas: written.desired,
            written_conditions: written.conditions.clone(),
            desired_replicas: trace.desired,
            given,
            assumed,
            trace,
        }
    }

    pub(crate) fn result(&self) -> String {
        let computed = self.desired_replicas.map(|it| it.to_string());
        format!(
            "desired replicas: {} by this computation, {} written by the controller",
            computed.as_deref().unwrap_or("none"),
            count(self.written_desired_replicas)
        )
    }

    fn text(&self, with_time: bool, with_flags: bool) -> String {
        let mut lines = Vec::new();
        lines.extend(with_time.then(|| format!("-- {}", self.at)));
        let (namespace, name) = (&self.namespace, &self.name);
        lines.push(format!("HorizontalPodAutoscaler {namespace}/{name}"));
        let sentences = self.trace.sentences();
        lines.extend(sentences.iter().map(|sentence| format!("  {sentence}")));
        lines.push(self.result());
        lines.push("conditions by this computation:".to_owned());
        for condition in &self.trace.conditions {
            let status = if condition.status { "True" } else { "False" };
            lines.push(format!(
                "  {} {status} {}: {}",
                condition.type_, condition.reason, condition.message
            ));
        }
        lines.push("conditions written by the controller:".to_owned());
        for condition in &self.written_conditions {
            let texts = [&condition.reason, &condition.message];
            let [reason, message] = texts.map(|it| it.as_deref().unwrap_or_default());
            let (type_, status) = (&condition.type_, &condition.status);
            lines.push(format!("  {type_} {status} {reason}: {message}"));
        }
        for (what, all) in [("given", &self.given), ("assumed", &self.assumed)] {
            if with_flags && !all.is_empty() {
                lines.push(format!("{what}:"));
                lines.extend(all.iter().map(|one| format!("  {one}")));
            }
        }
        lines.join("\n")
    }
}

/// The controller's memory as far as its status shows it: whether an earlier
/// recommendation holds the replicas.
fn as_written(reading: &Reading, now: Timestamp) -> History {
    let held = ["ScaleDownStabilized", "ScaleUpStabilized"];
    let status = &reading.hpa.status;
    let is_held = held.iter().any(|reason| status.message(reason).is_some());
    let at = now - Duration::from_secs(1);
    let past = |replicas| PastReplicas { replicas, at };
    let recommendation = status.desired.filter(|_| is_held).map(past);
    History {
        recommendations: recommendation.into_iter().collect(),
        scaled_to_zero: status.is_true(SCALED_TO_ZERO),
        ..History::default()
    }
}

/// The given flags, and the assumptions about what only the controller has.
fn assumed(reading: &Reading, flags: &FlagArgs) -> [Vec<String>; 2] {
    let [given, flags] = flags.written(&reading.flags);
    let flags = format!("flags of kube-controller-manager: {}", flags.join(" "));
    let earlier = "earlier recommendations: only those in the status; --follow keeps all recommendations from its start";
    [given, vec![flags, earlier.to_owned()]]
}
