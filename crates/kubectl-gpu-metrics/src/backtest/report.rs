//! What the backtest of an autoscaler says.

use std::thread;
use std::time::Duration;

use apimachinery::duration::{format_duration, go_duration};
use findings::Severity as FindingSeverity;

use crate::document::cell::{Cell, Unit};
use crate::document::instants::means;
use crate::document::table::{Table, columns};
use crate::document::{Document, Fact, Severity};
use crate::explain::hpa::written;
use crate::replay::past::SATURATED;
use crate::replay::sweep::{TARGETS, best};
use crate::replay::{Figures, MOST_CENSORED, Plan, Tick, Trial};

use super::{BacktestArgs, DAY, HOUR, SYNC};

/// The most points of a line; more are folded into means.
const POINTS: usize = 1_500;

/// The backtest of one autoscaler.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) args: &'a BacktestArgs,
    /// Assumptions, and their sources.
    pub(super) notes: &'a [String],
    pub(super) trial: Trial<'a>,
}

/// The figures of some replicas over time.
#[derive(Debug)]
struct FiguresRow {
    of: String,
    figures: Figures,
    is_best: bool,
}

columns! {
    FIGURES: FiguresRow;
    "name", "REPLICAS", "" [] => |row| Cell::text(&row.of);
    "gpuHours", "GPU-HOURS", "of all ordered replicas"
        [unit(Unit::Count)] => |row| Cell::number(row.figures.gpu_hours, Unit::Count);
    "shortage", "SHORTAGE", "demand was 95 % or more of the serving GPUs"
        [unit(Unit::Seconds)] => |row| Cell::number(row.figures.shortage, Unit::Seconds);
    "scaleUps", "UPS", "scale-ups"
        [unit(Unit::Count)] => |row| Cell::number(row.figures.scale_ups.into(), Unit::Count);
    "scaleDowns", "DOWNS", "scale-downs"
        [unit(Unit::Count)] => |row| Cell::number(row.figures.scale_downs.into(), Unit::Count);
    "unknown", "UNKNOWN", "demand is unknown, which is no shortage"
        [unit(Unit::Seconds)] => |row| Cell::number(row.figures.unknown, Unit::Seconds);
    "best", "BEST", "fewest GPU-hours within --max-shortage" [] => |row| match row.is_best {
        true => Cell::verdict(Severity::Good, "best"),
        false => Cell::text(""),
    };
}

impl Report<'_> {
    /// Runs the simulations, and adds what they say.
    pub(super) fn add_to(&self, document: &mut Document) {
        let Trial { past, plan, .. } = self.trial;
        let scaled = &plan.hpa.scaled;
        let [from, to] = [past.period.start, past.period.end()].map(|at| at.whole_second().date());
        document.heading(format!(
            "{plan} on {} {}, {from} to {to}",
            scaled.kind, scaled.name
        ));
        let (recorded, simulated) = (self.trial.recorded(), self.trial.run());
        for warning in self.warnings() {
            document.verdict(Severity::Warning, warning);
        }
        let rows = [("recorded", &recorded), ("simulated", &simulated)];
        let row = |(of, ticks): (&str, &Vec<Tick>)| self.row(of.to_owned(), ticks);
        document.table(self.table("What was, and what would have been", rows.map(row)));
        if self.args.sweep {
            self.add_sweep(document, &simulated);
        }
        self.add_lines(document, &recorded, &simulated);
        let flags = self.trial.flags;
        let assumed = [
            format!(
                "flags of kube-controller-manager 1.{}: {} --{SYNC}={}",
                flags.minor,
                written(flags),
                go_duration(flags.sync_period)
            ),
            format!(
                "replicas serve load {} after they are ordered (--ready-after), and share the \
                 demand evenly; demand that they cannot serve is lost",
                format_duration(self.trial.ready_after)
            ),
            "demand does not depend on the number of replicas".to_owned(),
        ];
        document.notes(self.notes.iter().cloned().chain(assumed));
    }

    fn row(&self, of: String, ticks: &[Tick]) -> FiguresRow {
        FiguresRow {
            of,
            figures: self.trial.figures(ticks),
            is_best: false,
        }
    }

    fn table(&self, caption: &str, rows: impl IntoIterator<Item = FiguresRow>) -> Table {
        let mut table = Table::of(caption, FIGURES, rows);
        let is_marked = |row: &Vec<Cell>| matches!(row.last(), Some(Cell::Verdict(_)));
        if !table.rows.iter().any(is_marked) {
            table.remove("best");
        }
        table
    }

    fn add_sweep(&self, document: &mut Document, simulated: &[Tick]) {
        let plans = TARGETS.map(|it| {
            let plan = self
                .trial
                .plan
                .with_target(it, self.trial.past.gpus_per_pod);
            (it, plan)
        });
        let mut rows = vec![self.row("the target of the file".to_owned(), simulated)];
        rows.extend(self.run_all(&plans));
        let figures: Vec<Figures> = rows.iter().map(|row| row.figures).collect();
        let most = self.args.max_shortage;
        let found = match self.withheld() {
            Some(why) => Err(why),
            None => best(&figures, most.as_secs_f64()).ok_or_else(|| {
                format!(
                    "no target has at most {} of shortage",
                    format_duration(most)
                )
            }),
        };
        if let Ok(best) = &found {
            rows[*best].is_best = true;
        }
        document.table(self.table("Targets, in percent of each GPU", rows));
        match found {
            Err(why) => {
                document.verdict(Severity::Unknown, format!("No target is the best: {why}"));
            }
            Ok(0) => document.verdict(Severity::Good, "The target of the file is the best"),
            Ok(best) => {
                let (percent, plan) = &plans[best - 1];
                let saved = figures[0].gpu_hours - figures[best].gpu_hours;
                let share = 100.0 * saved / figures[0].gpu_hours;
                let target = plan.hpa.metrics.first();
                let target = target.map_or_else(String::new, |it| it.target.to_string());
                document.verdict(
                    Severity::Note,
                    format!(
                        "{percent} % is the best, a target of {target}: of the targets with at \
                         most {} of shortage it needs the fewest GPU-hours, {saved:.1} \
                         ({share:.0} %) fewer than the target of the file",
                        format_duration(most)
                    ),
                );
            }
        }
    }

    /// The rows of these plans, computed at once.
    fn run_all(&self, plans: &[(u32, Plan)]) -> Vec<FiguresRow> {
        let row = &|(percent, plan): &(u32, Plan)| {
            let trial = Trial { plan, ..self.trial };
            self.row(format!("{percent} %"), &trial.run())
        };
        thread::scope(|scope| {
            let runs = plans.iter().map(|plan| scope.spawn(move || row(plan)));
            let runs: Vec<_> = runs.collect();
            let done = runs.into_iter().filter_map(|run| run.join().ok());
            done.collect()
        })
    }

    /// Reasons to doubt the figures.
    fn warnings(&self) -> Vec<String> {
        let past = self.trial.past;
        let mut warnings = Vec::new();
        let length = past.period.end().since(past.period.start);
        // The newest scrapes may not be stored yet.
        if length < 7 * DAY - HOUR {
            warnings.push(format!(
                "{} are less than a week: weekends and rare peaks may be missing",
                format_duration(Duration::from_secs(length.as_secs()))
            ));
        }
        let censored = past.censored();
        if censored > 0.0 {
            warnings.push(format!(
                "in {:.1} % of the time most GPUs were at {SATURATED} % or more: the demand may be \
                 higher than shown",
                100.0 * censored
            ));
        }
        let found = findings::hpa::check(&self.trial.plan.hpa, None, None).into_iter();
        let found = found.filter(|it| it.severity != FindingSeverity::Info);
        warnings.extend(found.map(|it| format!("{}: {}", it.code, it.message)));
        warnings
    }

    /// Why no target is recommended.
    fn withheld(&self) -> Option<String> {
        let censored = self.trial.past.censored();
        (censored > MOST_CENSORED).then(|| {
            format!(
                "in {:.0} % of the time the demand was higher than the GPUs could serve, so it is \
                 unknown; select a period with more GPUs",
                100.0 * censored
            )
        })
    }

    fn add_lines(&self, document: &mut Document, recorded: &[Tick], simulated: &[Tick]) {
        let gpus = self.trial.past.gpus_per_pod;
        let size = simulated.len().div_ceil(POINTS).max(1);
        let line = |label: &str, ticks: &[Tick], read: &dyn Fn(&Tick) -> Option<f64>| {
            let values: Vec<Option<f64>> = ticks.iter().map(read).collect();
            let (values, unit) = (means(&values, size), Unit::Count);
            Fact::new(label, Cell::Instants { values, unit })
        };
        let capacity = |tick: &Tick| Some(f64::from(tick.ready) * gpus);
        let replicas = |tick: &Tick| Some(f64::from(tick.replicas));
        let start = self.trial.past.period.start.date();
        let step = self.trial.flags.sync_period.as_secs_f64() * size as f64;
        document.facts([
            Fact::new("start", Cell::text(start)),
            Fact::new("step", Cell::number(step, Unit::Seconds)),
            line("demand in GPUs", recorded, &|tick| tick.demand),
            line("recorded capacity in GPUs", recorded, &capacity),
            line("simulated capacity in GPUs", simulated, &capacity),
            line("recorded replicas", recorded, &replicas),
            line("simulated replicas", simulated, &replicas),
        ]);
    }
}
