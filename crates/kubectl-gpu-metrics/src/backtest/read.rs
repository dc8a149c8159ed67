//! Reads the past from Prometheus, a day at a time.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use apimachinery::duration::format_duration;
use apimachinery::promql::{any_of, equals, quote, quote_regex};
use apimachinery::time::{Timestamp, millis};
use configuration::Config;
use gpu_metrics::batch::Batch;
use gpu_metrics::policy::DeviceValue;
use gpu_metrics::signal::{SignalId, SignalSpec};
use prometheus_source::query::any_name;
use prometheus_source::{Error, ErrorKind, Prometheus, VectorSample};

use crate::Failure;
use crate::replay::{Gather, Moment, Past, Plan};

use super::{BacktestArgs, DAY, span};

/// The most points of a series that Prometheus returns in one answer.
const MOST_POINTS: usize = 11_000;

/// The smallest range that is tried when the store refuses larger ones.
const LEAST_POINTS: usize = 60;

/// The most readings held at a time, 256 MiB. With more series each query covers a shorter range.
const MOST_CELLS: usize = 1 << 26;

/// Assumed if no data shows how long replicas take to start.
const READY_AFTER: Duration = Duration::from_secs(60);

/// Assumed if no data shows the scrape interval.
const STEP: Duration = Duration::from_secs(15);

/// Scrapes are counted over this range, 1 ms short: a range may include both its ends.
const COUNTED: Duration = Duration::from_millis(599_999);

/// The number of instants at which scrapes are counted, evenly spread over the period; the
/// last one is its end.
const LOOKS: usize = 8;

/// Names of workloads beyond this length may be truncated in the names of their pods.
const WHOLE_NAME: usize = 45;

#[derive(Clone, Copy, Debug)]
pub(super) struct Store<'a> {
    pub(super) promql: &'a Prometheus,
    pub(super) config: &'a Config,
    pub(super) args: &'a BacktestArgs,
}

#[derive(Debug)]
pub(super) struct Read {
    pub(super) past: Past,
    pub(super) ready_after: Duration,
    pub(super) notes: Vec<String>,
}

fn failed(error: &Error) -> Failure {
    Failure::Failed(error.to_string())
}

impl Store<'_> {
    pub(super) async fn read(&self, plan: &Plan) -> Result<Read, Failure> {
        let signals = match plan.utilization {
            DeviceValue::GpuUtilization => [SignalId::GPU_UTIL, SignalId::GR_ENGINE_ACTIVE],
            _ => [SignalId::MEM_COPY_UTIL, SignalId::DRAM_ACTIVE],
        };
        let mut notes = Vec::new();
        for signal in signals {
            let spec = self.config.signals.iter().find(|spec| spec.id == signal);
            let Some(spec) = spec else { continue };
            let selectors = self.selectors(spec, plan);
            let step = self.step(&selectors, &mut notes).await?;
            let (start, count) = span(self.args, step)?;
            let pods = self.owners(plan, (start, step, count)).await?;
            notes.push(owned(&pods, plan));
            let as_ratio = self.config.policy.percent_as_ratio;
            let mut gather = Gather::new(plan, pods, (spec.unit, as_ratio), (start, step), count);
            // A reading is valid on the server for this long, shorter than Prometheus'
            // five minutes.
            let fresh = format_duration(self.config.policy.freshness.max(3 * step));
            let query = selectors.map(|it| format!("last_over_time({it}[{fresh}])"));
            let query = query.join(" or ");
            let mut any = false;
            let take = |batch: &Batch, range| any |= gather.take(batch, range);
            self.pieces(&query, (start, step, count), take).await?;
            if any {
                let names = spec.wire_names.join(" or ");
                if gather.has_unknown_unit() {
                    return Err(Failure::Failed(format!(
                        "{names} has values between 0 and 1, where percents are expected: set gpu.percentAsRatio (check --explain GM413)"
                    )));
                }
                notes.push(format!("demand is the sum of {names}"));
                return self.finish(gather, plan, notes).await;
            }
            notes.clear();
        }
        Err(Failure::Failed(format!(
            "no GPU reading for {} {} in namespace {}: check the name, the retention of the store, \
             and that series name pods (check --explain GM402)",
            plan.hpa.scaled.kind, plan.hpa.scaled.name, plan.hpa.namespace
        )))
    }

    /// Selectors for each form in which series name the pods of the workload, or of its
    /// namespace.
    fn selectors(&self, spec: &SignalSpec, plan: &Plan) -> [String; 5] {
        let namespace = quote(&plan.hpa.namespace);
        let pods = match plan.looks_at_namespace() {
            true => quote(".+"),
            false => {
                let letters = plan.hpa.scaled.name.chars().take(WHOLE_NAME);
                quote(&format!("{}.*", quote_regex(&letters.collect::<String>())))
            }
        };
        let matchers = self.matchers();
        let name = any_name(&[spec]);
        let schemes = [
            format!("exported_namespace={namespace},exported_pod=~{pods}"),
            format!("pod_namespace={namespace},pod_name=~{pods}"),
            format!("exported_namespace={namespace},exported_pod=\"\",pod=~{pods}"),
            format!("namespace={namespace},exported_namespace=\"\",exported_pod=~{pods}"),
            format!("namespace={namespace},exported_namespace=\"\",exported_pod=\"\",pod=~{pods}"),
        ];
        schemes.map(|scheme| format!("{{{name},{scheme}{matchers}}}"))
    }

    fn matchers(&self) -> String {
        let settings = self.config.prometheus.iter();
        let all = settings.flat_map(|settings| &settings.matchers);
        all.map(|(label, value)| format!(",{}", equals(label, value)))
            .collect()
    }

    /// `--step`, or the scrape interval: the median over the series, from the number of
    /// scrapes in [`COUNTED`]. The instant with most scrapes counts, because scrapes are
    /// missing at the ends of the data, in gaps, and for pods that start or end.
    async fn step(
        &self,
        selectors: &[String],
        notes: &mut Vec<String>,
    ) -> Result<Duration, Failure> {
        if let Some(step) = self.args.step {
            return Ok(step);
        }
        let range = format_duration(COUNTED);
        let counts = selectors.iter();
        let counts = counts.map(|selector| format!("count_over_time({selector}[{range}])"));
        let counts: Vec<String> = counts.collect();
        let query = format!("quantile(0.5, {})", counts.join(" or "));
        let (start, moments) = span(self.args, STEP)?;
        let mut most = 0.0_f64;
        for place in 1..=LOOKS {
            let moments = moments * place / LOOKS;
            let at = start + STEP * u32::try_from(moments).unwrap_or(u32::MAX);
            let found = self.vector(&query, at).await?;
            most = found.first().map_or(most, |it| most.max(it.value));
        }
        let (step, how) = match most >= 2.0 {
            true => {
                let seconds = (COUNTED.as_secs_f64() / most).round().max(1.0);
                (Duration::from_secs(seconds as u64), "seen")
            }
            false => (STEP, "assumed"),
        };
        notes.push(format!("scraped every {}, as {how}", format_duration(step)));
        Ok(step)
    }

    async fn vector(&self, promql: &str, at: Timestamp) -> Result<Vec<VectorSample>, Failure> {
        let samples = self.promql.query(promql, at).await;
        samples.map_err(|error| failed(&error))
    }

    /// The pods of the workload according to kube-state-metrics; empty without its data.
    async fn owners(
        &self,
        plan: &Plan,
        (start, step, count): (Timestamp, Duration, usize),
    ) -> Result<HashSet<String>, Failure> {
        let matchers = self.matchers();
        let namespace = quote(&plan.hpa.namespace);
        let scaled = &plan.hpa.scaled;
        let kind = quote(&scaled.kind);
        let day = format_duration(DAY);
        let owned = |metric: &str, by: &str, kind: &str, name: &str| {
            format!(
                "count by ({by}) (max_over_time({metric}{{namespace={namespace},owner_kind={kind},\
                 owner_name=~{name}{matchers}}}[{day}]))"
            )
        };
        let end_ms = start.millis() + millis(step).saturating_mul(count as i64);
        let days = (end_ms - start.millis()) / millis(DAY);
        let exact = any_of([&scaled.name]);
        let mut pods = HashSet::new();
        for ago in 0..=days {
            let at = Timestamp::from_millis(end_ms - ago * millis(DAY));
            let label = |samples: Vec<VectorSample>, label: &str| -> Vec<String> {
                let values = samples.iter().filter_map(|sample| sample.labels.get(label));
                values.map(str::to_owned).collect()
            };
            let query = match scaled.kind.as_str() {
                "Deployment" => {
                    let sets = owned("kube_replicaset_owner", "replicaset", &kind, &exact);
                    let sets = label(self.vector(&sets, at).await?, "replicaset");
                    if sets.is_empty() {
                        continue;
                    }
                    owned("kube_pod_owner", "pod", "\"ReplicaSet\"", &any_of(sets))
                }
                _ => owned("kube_pod_owner", "pod", &kind, &exact),
            };
            pods.extend(label(self.vector(&query, at).await?, "pod"));
        }
        Ok(pods)
    }

    /// Runs a query over the whole time, a day at a time, or a shorter range where
    /// the store refuses a day.
    async fn pieces(
        &self,
        promql: &str,
        (start, step, count): (Timestamp, Duration, usize),
        mut take: impl FnMut(&Batch, Range<usize>),
    ) -> Result<(), Failure> {
        let step_ms = millis(step).max(1);
        let a_day = usize::try_from(millis(DAY) / step_ms).unwrap_or(1);
        let mut length = a_day.clamp(1, MOST_POINTS);
        let time = |place: usize| Timestamp::from_millis(start.millis() + step_ms * place as i64);
        let mut done = 0;
        while done < count {
            let range = done..count.min(done + length);
            let over = [time(range.start), time(range.end - 1)];
            let answer = self.promql.range(promql, over, step).await;
            let is_too_long = match &answer {
                Ok(batch) => batch.series_len().saturating_mul(range.len()) > MOST_CELLS,
                Err(error) => matches!(
                    error.kind(),
                    ErrorKind::TooLarge
                        | ErrorKind::Timeout
                        | ErrorKind::Rejected
                        | ErrorKind::ServerError
                ),
            };
            if is_too_long && length > LEAST_POINTS {
                length = (length / 4).max(LEAST_POINTS);
                continue;
            }
            done = range.end;
            take(&answer.map_err(|error| failed(&error))?, range);
        }
        Ok(())
    }

    /// Reads the ordered replicas, the other measure of the demand, and how long
    /// replicas took to start.
    async fn finish(
        &self,
        mut gather: Gather<'_>,
        plan: &Plan,
        mut notes: Vec<String>,
    ) -> Result<Read, Failure> {
        let seen = gather.ready_after();
        let span = gather.span();
        let scaled = &plan.hpa.scaled;
        let (kind, label) = (scaled.kind.to_ascii_lowercase(), quote(&scaled.name));
        let field = match scaled.kind.as_str() {
            "StatefulSet" => "replicas",
            _ => "spec_replicas",
        };
        let query = format!(
            "max(kube_{kind}_{field}{{namespace={},{kind}={label}{}}})",
            quote(&plan.hpa.namespace),
            self.matchers()
        );
        let mut ordered = Vec::new();
        if kind.bytes().all(|it| it.is_ascii_alphanumeric()) {
            self.pieces(&query, span, |batch, _| ordered.extend(samples(batch)))
                .await?;
        }
        notes.push(match ordered.is_empty() {
            true => "recorded replicas are the pods that held GPUs".to_owned(),
            false => format!("recorded replicas are those of kube_{kind}_{field}"),
        });
        gather.order(ordered);
        let mut measure = vec![None; span.2];
        if let Some(query) = &self.args.demand {
            let mut most = 0;
            self.pieces(query, span, |batch, range| {
                most = most.max(batch.series_len());
                for (at, value) in samples(batch) {
                    let offset = (at.millis() - span.0.millis()) / millis(span.1).max(1);
                    let place = usize::try_from(offset).ok().filter(|it| range.contains(it));
                    if let Some(cell) = place.and_then(|place| measure.get_mut(place)) {
                        *cell = Some(value);
                    }
                }
            })
            .await?;
            if most > 1 {
                return Err(Failure::Usage(format!(
                    "--demand gives {most} series, and one is needed: write sum(…) around it"
                )));
            }
        }
        let (mut past, other) = gather.finish();
        if other * 20 > past.moments.len() {
            notes.push(format!(
                "pods hold {} GPUs; in {} of {} moments some pods held another number",
                past.gpus_per_pod,
                other,
                past.moments.len()
            ));
        }
        if self.args.demand.is_some() {
            let factor = past.calibrate(&measure).ok_or_else(|| {
                Failure::Failed(
                    "--demand has no value above zero at any time at which the GPUs were below \
                     their limit: check the result of the query in Prometheus"
                        .to_owned(),
                )
            })?;
            notes.push(format!("one GPU serves {:.4} of --demand", 1.0 / factor));
        }
        self.trim(&mut past)?;
        let (ready_after, from) = match (self.args.ready_after, seen) {
            (Some(given), _) => (given, "as given".to_owned()),
            (None, Some((seen, pods))) => {
                let what = "the median time from the first reading to the first work of";
                (
                    Duration::from_secs(seen.as_secs()),
                    format!("{what} {pods} pods"),
                )
            }
            (None, None) => {
                let why = "assumed, because no pod was created in this period";
                (READY_AFTER, why.to_owned())
            }
        };
        let ready = format_duration(ready_after);
        notes.push(format!(
            "replicas serve load {ready} after their creation: {from}; this excludes the time \
             before the first reading, such as scheduling and image pulls; set --ready-after to \
             include it"
        ));
        Ok(Read {
            past,
            ready_after,
            notes,
        })
    }

    /// Removes the time before the first and after the last reading, and rejects a period
    /// that is too short.
    fn trim(&self, past: &mut Past) -> Result<(), Failure> {
        let is_known = |moment: &Moment| moment.demand.is_some();
        let first = past.moments.iter().position(is_known);
        let last = past.moments.iter().rposition(is_known);
        let (Some(first), Some(last)) = (first, last) else {
            let what = "at no time did most GPUs of the workload have a valid reading";
            return Err(Failure::Failed(what.to_owned()));
        };
        past.start = past.time(first);
        past.moments.truncate(last + 1);
        past.moments.drain(..first.min(last));
        let length = past.end().since(past.start);
        if length + past.step * 2 < DAY && !self.args.allow_short {
            return Err(Failure::Failed(format!(
                "the period has readings for {} only, from {} to {}: less than a day does not \
                 predict the next one; set --allow-short to continue",
                format_duration(Duration::from_secs(length.as_secs())),
                past.start.date(),
                past.end().date()
            )));
        }
        Ok(())
    }
}

fn owned(pods: &HashSet<String>, plan: &Plan) -> String {
    let (kind, name) = (&plan.hpa.scaled.kind, &plan.hpa.scaled.name);
    match pods.len() {
        0 => format!(
            "pods of {kind} {name} are matched by their names: kube_pod_owner has no series for them"
        ),
        some => format!("{some} pods of {kind} {name}, by kube_pod_owner"),
    }
}

/// The samples of all series; one series is expected.
fn samples(batch: &Batch) -> Vec<(Timestamp, f64)> {
    let all = batch.iter().flat_map(|series| series.samples);
    let known = all.filter(|sample| sample.value.is_finite());
    known.map(|sample| (sample.at, sample.value)).collect()
}
