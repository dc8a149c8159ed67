//! What the backtest of an autoscaler says.

use std::thread;

use apimachinery::duration::{format_duration, go_duration};

use crate::document::cell::{Cell, Unit};
use crate::document::instants::means;
use crate::document::series::{Line, Series};
use crate::document::table::{Table, columns};
use crate::document::{Block, Document, Severity};
use crate::explain::hpa::written;
use crate::replay::past::SATURATED;
use crate::replay::sweep::best;
use crate::replay::{Figures, MOST_CENSORED, Plan, Tick, Trial};

use super::{BacktestArgs, SYNC};

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
    "shortage", "SHORTAGE", "demand was more than the ready replicas serve"
        [unit(Unit::Seconds)] => |row| Cell::number(row.figures.shortage, Unit::Seconds);
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
        let censored = 100.0 * past.censored();
        if censored >= 0.05 {
            let text = format!(
                "In {censored:.1} % of the time most GPUs were at {SATURATED} % or more: the demand \
                 may be higher than shown"
            );
            document.verdict(Severity::Warning, text);
        }
        let (recorded, simulated) = (self.trial.recorded(), self.trial.run());
        let mut rows = vec![
            self.row("recorded".to_owned(), &recorded),
            self.row("the target of the file".to_owned(), &simulated),
        ];
        let verdict = self.args.sweep.then(|| self.sweep(&mut rows));
        let mut table = Table::of("What was, and what would have been", FIGURES, rows);
        if verdict.is_none() {
            table.remove("best");
        }
        document.table(table);
        if let Some((severity, text)) = verdict {
            document.verdict(severity, text);
        }
        let lines = self.lines(&recorded, &simulated);
        document.blocks.push(Block::Series(lines));
        document.notes(self.notes.iter().cloned().chain(self.assumed()));
    }

    fn row(&self, of: String, ticks: &[Tick]) -> FiguresRow {
        FiguresRow {
            of,
            figures: self.trial.figures(ticks),
            is_best: false,
        }
    }

    /// Adds rows of other targets to those of the recorded replicas and of the file, marks the
    /// best, and says which it is.
    fn sweep(&self, rows: &mut Vec<FiguresRow>) -> (Severity, String) {
        let Trial { past, plan, .. } = self.trial;
        let plan = |(name, percent)| (name, plan.with_target(percent, past.gpus_per_pod));
        let plans: Vec<(String, Plan)> = self.trial.plan.targets().into_iter().map(plan).collect();
        rows.extend(self.run_all(&plans));
        let unknown = |why: String| (Severity::Unknown, format!("No target is the best: {why}"));
        if past.censored() > MOST_CENSORED {
            return unknown(
                "too much of the demand is unknown; select a period with more GPUs".into(),
            );
        }
        let figures: Vec<Figures> = rows.iter().skip(1).map(|row| row.figures).collect();
        let most = format_duration(self.args.max_shortage);
        let Some(best) = best(&figures, self.args.max_shortage.as_secs_f64()) else {
            return unknown(format!("each has more than {most} of shortage"));
        };
        rows[best + 1].is_best = true;
        let Some((name, plan)) = best.checked_sub(1).map(|place| &plans[place]) else {
            let text = "The target of the file is the best".to_owned();
            return (Severity::Good, text);
        };
        let saved = figures[0].gpu_hours - figures[best].gpu_hours;
        let share = 100.0 * saved / figures[0].gpu_hours;
        let target = plan.hpa.metrics.first();
        let target = target.map_or_else(String::new, |it| it.target.to_string());
        let text = format!(
            "{name} is the best, a target of {target}: of the targets with at most {most} of \
             shortage it needs the fewest GPU-hours, {saved:.1} ({share:.0} %) fewer than the \
             target of the file"
        );
        (Severity::Note, text)
    }

    /// The rows of these plans, computed at once.
    fn run_all(&self, plans: &[(String, Plan)]) -> Vec<FiguresRow> {
        let row = &|(name, plan): &(String, Plan)| {
            let trial = Trial { plan, ..self.trial };
            self.row(name.clone(), &trial.run())
        };
        thread::scope(|scope| {
            let runs = plans.iter().map(|plan| scope.spawn(move || row(plan)));
            let runs: Vec<_> = runs.collect();
            let done = runs.into_iter().filter_map(|run| run.join().ok());
            done.collect()
        })
    }

    fn lines(&self, recorded: &[Tick], simulated: &[Tick]) -> Series {
        let size = simulated.len().div_ceil(POINTS).max(1);
        let line = |name: &str, ticks: &[Tick], read: &dyn Fn(&Tick) -> Option<f64>| {
            let values: Vec<Option<f64>> = ticks.iter().map(read).collect();
            Line::new(name, means(&values, size))
        };
        let replicas = |tick: &Tick| Some(f64::from(tick.replicas));
        let demand = match self.trial.plan.metric {
            Some(_) => "demand in GPUs",
            None => "demand",
        };
        Series {
            caption: "Demand and replicas".to_owned(),
            unit: Unit::Count,
            times: simulated.iter().step_by(size).map(|it| it.at).collect(),
            lines: vec![
                line(demand, recorded, &|tick| tick.demand),
                line("recorded replicas", recorded, &replicas),
                line("simulated replicas", simulated, &replicas),
            ],
            marks: Vec::new(),
        }
    }

    fn assumed(&self) -> [String; 3] {
        let flags = self.trial.flags;
        [
            format!(
                "flags of kube-controller-manager 1.{}: {} --{SYNC}={}",
                flags.minor,
                written(flags),
                go_duration(flags.sync_period)
            ),
            format!(
                "replicas serve load {} after they are ordered (--ready-after){}",
                format_duration(self.trial.ready_after),
                match self.trial.plan.metric {
                    Some(_) => {
                        ", and share the demand evenly; demand that they cannot serve is lost"
                    }
                    None => "",
                }
            ),
            "demand does not depend on the number of replicas".to_owned(),
        ]
    }
}
