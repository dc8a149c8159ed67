//! One page in one file: the tables and three charts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use hpa::ratio::Tolerances;

use crate::chart::lines::{Line, Lines};
use crate::replay::Tick;

use super::{Report, print};

const STYLE: &str = include_str!("page.css");

pub(super) fn html(reports: &[Report]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Backtest" @for report in reports { " " (report.namespace) "/" (report.name) } }
                style { (PreEscaped(STYLE)) }
            }
            body { @for report in reports { (of(report)) } }
        }
    }
}

fn of(report: &Report) -> Markup {
    html! {
        main {
            h1 { (report.namespace) "/" (report.name) }
            p.soft { "What it would have done to " (report.target) ", " (report.from) " to " (report.to) " (UTC)" }
            @for warning in &report.warnings { p.warning { strong { "Warning: " } (warning) } }
            (rows(&print::table(report)))
            (demand(report))
            (replicas(report))
            (metric(report))
            @if let Some(sweep) = &report.sweep {
                h2 { "Other settings" }
                p { (print::verdict(sweep, report.conservation.as_ref())) }
                (rows(&print::sweep_table(sweep)))
                @if let Some(command) = print::command(report) { pre { code { (command) } } }
            }
            h2 { "Assumptions and data" }
            ul { @for note in print::conservation(report).iter().chain(&report.notes) { li { (note) } } }
        }
    }
}

/// The first row is the heading.
fn rows(table: &[Vec<String>]) -> Markup {
    html! {
        div.wide {
            table {
                thead { @for row in table.iter().take(1) { tr { @for cell in row { th scope="col" { (cell) } } } } }
                tbody {
                    @for row in table.iter().skip(1) {
                        tr {
                            @for (place, cell) in row.iter().enumerate() {
                                @if place == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn line<'a>(
    name: &'a str,
    class: &'a str,
    ticks: &[Tick],
    read: impl Fn(&Tick) -> Option<f64>,
) -> Line<'a> {
    Line {
        name,
        class,
        points: ticks.iter().map(|tick| (tick.at, read(tick))).collect(),
    }
}

/// A chart with its legend.
fn figure(heading: &str, chart: &Lines<'_>) -> Markup {
    html! {
        h2 { (heading) }
        p.soft { (chart.description) }
        (chart.svg())
        (chart.legend())
    }
}

fn demand(report: &Report) -> Markup {
    let [recorded, simulated] = &report.ticks;
    let gpus = report.gpus_per_pod;
    let capacity = |tick: &Tick| Some(f64::from(tick.ready) * gpus);
    let past = &report.past;
    let (mut marked, mut end) = (Vec::new(), 0);
    for run in past.moments.chunk_by(|a, b| a.censored == b.censored) {
        let start = end;
        end += run.len();
        if run.iter().any(|it| it.censored) {
            marked.push((past.time(start), past.time(end)));
        }
    }
    let chart = Lines {
        title: "Demand and capacity over time",
        description: match marked.is_empty() {
            true => "Demand and capacity in GPUs.",
            false => {
                "Demand and capacity in GPUs. In hatched periods the GPUs were at their limit, and \
                 the demand was at least the value shown."
            }
        },
        lines: vec![
            line("capacity recorded", "capacity", recorded, capacity),
            line("capacity simulated", "simulated", simulated, capacity),
            line("demand", "demand", recorded, |tick| tick.demand),
        ],
        band: None,
        marked,
    };
    figure("Demand and capacity", &chart)
}

fn replicas(report: &Report) -> Markup {
    let [recorded, simulated] = &report.ticks;
    let read = |tick: &Tick| Some(f64::from(tick.replicas));
    let (min, max) = (report.plan.hpa.min, report.plan.hpa.max);
    let description = format!("Desired replicas, between minReplicas {min} and maxReplicas {max}.");
    let chart = Lines {
        title: "Replicas over time",
        description: &description,
        lines: vec![
            line("recorded", "capacity", recorded, read),
            line("simulated", "simulated", simulated, read),
        ],
        band: None,
        marked: Vec::new(),
    };
    figure("Replicas", &chart)
}

fn metric(report: &Report) -> Markup {
    let [_, simulated] = &report.ticks;
    let first = report.plan.hpa.metrics.first();
    let target = first.map_or(0.0, |metric| metric.target.number());
    let Tolerances { down, up } = report.tolerances;
    let description = format!(
        "The value that the controller read and kubectl shows. The band is the target, {target}, \
         with its tolerance. Within the band the replicas do not change."
    );
    let chart = Lines {
        title: "The metric over time",
        description: &description,
        lines: vec![line("simulated", "simulated", simulated, |tick| tick.shown)],
        band: Some((target * (1.0 - down), target * (1.0 + up))),
        marked: Vec::new(),
    };
    figure("The first metric", &chart)
}
