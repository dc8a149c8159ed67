//! Tries other targets, windows and stabilisations: fitted on the first two thirds of
//! the past, and scored on the last.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2 as api;
use serde::Serialize;
use serde_json::{Value, json};

use apimachinery::duration::format_duration;
use hpa::hpa::MetricTarget;
use hpa::ratio::Milli;

use super::figures::Figures;
use super::past::Tick;
use super::plan::Plan;

/// Percent of each GPU.
const TARGETS: [u32; 5] = [40, 50, 60, 70, 80];
const WINDOWS: [Duration; 3] = [
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
];
/// Seconds of `scaleDown.stabilizationWindowSeconds`.
const STABILISATIONS: [i32; 3] = [60, 300, 900];

/// The autoscaler with changed settings.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// Percent of each GPU.
    target: u32,
    window: Duration,
    /// How long a recommendation holds replicas up, in seconds.
    stabilisation: i32,
    pub(crate) plan: Plan,
}

/// The figures of a variant; settings that are `None` are those of the manifest.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VariantFigures {
    /// Percent of each GPU.
    pub(crate) target: Option<u32>,
    pub(crate) window: Option<String>,
    /// Seconds.
    pub(crate) stabilisation: Option<i32>,
    /// On the first two thirds.
    pub(crate) fit: Figures,
    /// On the last third.
    pub(crate) score: Figures,
    /// Whether no other variant is better on the first two thirds in GPU-hours and
    /// not worse in overload, or the reverse.
    pub(crate) is_on_front: bool,
}

/// All variants, and the recommendation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sweep {
    pub(crate) as_it_is: VariantFigures,
    pub(crate) rows: Vec<VariantFigures>,
    /// The index of the best one in `rows`.
    pub(crate) best: Option<usize>,
    pub(crate) none_because: Option<String>,
    /// The change to apply: a merge patch of the autoscaler.
    pub(crate) patch: Option<Value>,
}

pub(crate) fn variants(plan: &Plan, gpus: f64) -> Vec<Variant> {
    let mut variants = Vec::new();
    for target in TARGETS {
        for window in WINDOWS {
            for stabilisation in STABILISATIONS {
                let mut variant = Variant {
                    target,
                    window,
                    stabilisation,
                    plan: plan.clone(),
                };
                variant.change_plan(gpus);
                variants.push(variant);
            }
        }
    }
    variants
}

impl Variant {
    fn change_plan(&mut self, gpus: f64) {
        let Plan { asked, hpa, .. } = &mut self.plan;
        for (asked, metric) in asked.iter_mut().zip(&mut hpa.metrics) {
            asked.window = Some(self.window);
            let per_replica = if asked.is_sum { gpus } else { 1.0 };
            let milli = Milli((f64::from(self.target) * per_replica * 1000.0).round() as i64);
            metric.target = match metric.target {
                MetricTarget::Value(_) => MetricTarget::Value(milli),
                _ => MetricTarget::AverageValue(milli),
            };
        }
        hpa.behavior.get_or_insert_default().down.window = Some(self.stabilisation);
    }
}

impl VariantFigures {
    /// The row of one run's ticks.
    pub(crate) fn of(
        variant: Option<&Variant>,
        figures: impl Fn(&[Tick]) -> Figures,
        ticks: &[Tick],
    ) -> Self {
        let (fit, score) = ticks.split_at(ticks.len() * 2 / 3);
        Self {
            target: variant.map(|it| it.target),
            window: variant.map(|it| format_duration(it.window)),
            stabilisation: variant.map(|it| it.stabilisation),
            fit: figures(fit),
            score: figures(score),
            is_on_front: false,
        }
    }
}

impl Sweep {
    /// Finds the cheapest variant without more overload than the manifest, and
    /// recommends it if the last third confirms that. `withheld` is a reason to
    /// recommend nothing.
    pub(crate) fn judge(
        as_it_is: VariantFigures,
        mut rows: Vec<VariantFigures>,
        withheld: Option<String>,
    ) -> Self {
        let fits: Vec<Figures> = rows.iter().map(|row| row.fit).collect();
        for row in &mut rows {
            let own = row.fit;
            row.is_on_front = !fits.iter().any(|other| {
                let (cost, load) = (other.gpu_hours, other.overload_minutes);
                (cost < own.gpu_hours && load <= own.overload_minutes)
                    || (cost <= own.gpu_hours && load < own.overload_minutes)
            });
        }
        let best = withheld.map_or_else(|| best(&as_it_is, &rows), Err);
        Self {
            as_it_is,
            rows,
            best: best.as_ref().ok().copied(),
            none_because: best.err(),
            patch: None,
        }
    }

    /// Adds the patch of a manifest.
    pub(crate) fn with_patch(
        mut self,
        object: &api::HorizontalPodAutoscaler,
        variants: &[Variant],
    ) -> Self {
        let best = self.best.and_then(|best| variants.get(best));
        self.patch = best.zip(object.spec.as_ref()).map(|(best, spec)| {
            let mut metrics = json!(spec.metrics);
            let all = metrics.as_array_mut().into_iter().flatten();
            for (metric, known) in all.zip(&best.plan.hpa.metrics) {
                let kind = metric["type"].as_str().unwrap_or_default();
                let kind = kind.to_ascii_lowercase();
                let given = &mut metric[kind];
                let (field, milli) = match known.target {
                    MetricTarget::Value(milli) => ("value", milli),
                    MetricTarget::AverageValue(milli) => ("averageValue", milli),
                    MetricTarget::Utilization(_) => continue,
                };
                given["target"][field] = json!(milli);
                let window = format_duration(best.window);
                given["metric"]["selector"]["matchLabels"]["window"] = window.into();
            }
            json!({"spec": {
                "metrics": metrics,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": best.stabilisation}},
            }})
        });
        self
    }
}

fn best(as_it_is: &VariantFigures, rows: &[VariantFigures]) -> Result<usize, String> {
    let fits = rows.iter().enumerate();
    let fits = fits.filter(|(_, row)| row.fit.overload_minutes <= as_it_is.fit.overload_minutes);
    let changes = |it: &Figures| f64::from(it.scale_ups + it.scale_downs);
    let key = |it: &Figures| (it.gpu_hours, it.overload_minutes, changes(it));
    let least = fits.min_by(|(_, one), (_, other)| {
        key(&one.fit)
            .partial_cmp(&key(&other.fit))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let Some((place, row)) = least else {
        return Err("every other setting has more overload than the current one".to_owned());
    };
    let (now, then) = (&row.score, &as_it_is.score);
    if now.overload_minutes > then.overload_minutes {
        return Err(
            "the cheapest setting of the first two thirds has more overload than the current one in the last third"
                .to_owned(),
        );
    }
    if now.gpu_hours >= then.gpu_hours {
        let why = "no setting saves GPU-hours in the last third: keep the current one";
        return Err(why.to_owned());
    }
    Ok(place)
}
