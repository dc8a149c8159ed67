//! The figures side by side, as text.

use crate::replay::{Conservation, Sweep};
use crate::table::lines;
use crate::wrap::wrapped;

use super::Report;

/// Names and cells of the columns; an unknown value is a dash.
pub(super) fn table(report: &Report) -> Vec<Vec<String>> {
    let heading = ["", "recorded", "simulated", "clairvoyant"].map(str::to_owned);
    let columns = [
        Some(report.recorded),
        Some(report.simulated),
        report.clairvoyant,
    ];
    let columns = columns.map(|figures| figures.map(|it| it.rows()));
    let mut rows = vec![heading.to_vec()];
    for (place, (name, ..)) in report.recorded.rows().into_iter().enumerate() {
        let cells = columns
            .iter()
            .map(|rows| match rows.as_ref().and_then(|it| it.get(place)) {
                Some((_, value, decimals)) => format!("{value:.decimals$}"),
                None => "–".to_owned(),
            });
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    rows
}

/// The leading cells of a sweep row: its mark and its settings.
const SETTINGS: usize = 4;

/// The rows of a sweep: those on the front, the best one marked. Settings with the
/// same figures share a row, which counts them.
pub(super) fn sweep_table(sweep: &Sweep) -> Vec<Vec<String>> {
    let heading = [
        "",
        "target",
        "window",
        "stabilisation",
        "GPU-hours",
        "overload",
        "events",
        "flaps",
        "GPU-hours after",
        "overload after",
        "others alike",
    ];
    let mut rows: Vec<([String; SETTINGS], [String; 6], usize)> = Vec::new();
    let fronts = sweep.rows.iter().enumerate();
    let fronts = fronts.filter(|(place, row)| row.is_on_front || sweep.best == Some(*place));
    let fronts = fronts.map(|(place, row)| (sweep.best == Some(place), row));
    for (is_best, row) in std::iter::once((false, &sweep.as_it_is)).chain(fronts) {
        let (fit, score) = (row.fit, row.score);
        let or = |text: Option<String>| text.unwrap_or_else(|| "as it is".to_owned());
        let settings = [
            if is_best { "best" } else { "" }.to_owned(),
            or(row.target.map(|target| target.to_string())),
            or(row.window.clone()),
            or(row.stabilisation.map(|seconds| format!("{seconds}s"))),
        ];
        let figures = [
            format!("{:.1}", fit.gpu_hours),
            minutes(fit.overload_minutes),
            (fit.scale_ups + fit.scale_downs).to_string(),
            fit.flaps.to_string(),
            format!("{:.1}", score.gpu_hours),
            minutes(score.overload_minutes),
        ];
        // The first row is the unchanged autoscaler.
        let mut others = rows.iter_mut().skip(1);
        match others.find(|(_, known, _)| *known == figures) {
            None => rows.push((settings, figures, 0)),
            Some((shown, _, others)) => {
                *others += 1;
                if is_best {
                    *shown = settings;
                }
            }
        }
    }
    let rows = rows.into_iter().map(|(settings, figures, others)| {
        let others = match others {
            0 => String::new(),
            others => others.to_string(),
        };
        [&settings[..], &figures, &[others]].concat()
    });
    std::iter::once(heading.map(str::to_owned).to_vec())
        .chain(rows)
        .collect()
}

/// Rounding must not hide a difference between rows.
fn minutes(minutes: f64) -> String {
    let decimals = if minutes < 10.0 { 2 } else { 0 };
    format!("{minutes:.decimals$}")
}

pub(super) fn command(report: &Report) -> Option<String> {
    let patch = report.sweep.as_ref()?.patch.as_ref()?;
    Some(format!(
        "kubectl patch hpa {} -n {} --type merge --patch '{patch}'",
        report.name, report.namespace
    ))
}

pub(super) fn verdict(sweep: &Sweep, conservation: Option<&Conservation>) -> String {
    match &sweep.none_because {
        None => {
            let tested = match conservation {
                Some(_) => "",
                None => "; the assumption that demand is conserved was not tested",
            };
            format!(
                "best: the cheapest setting without more overload than now, selected on the first \
                 two thirds of the period; after: its result on the last third{tested}"
            )
        }
        Some(why) => format!("no recommendation: {why}"),
    }
}

pub(super) fn conservation(report: &Report) -> Option<String> {
    let it = report.conservation.as_ref()?;
    Some(format!(
        "{} changes of the replicas: utilisation grew with their number to the power of {:.2}; {}",
        it.events,
        it.alpha,
        it.sentence()
    ))
}

pub(super) fn text(reports: &[Report]) -> String {
    let mut out = String::new();
    for report in reports {
        out += &format!(
            "{}/{} on {}, ",
            report.namespace, report.name, report.target
        );
        out += &format!("{} to {}\n\n", report.from, report.to);
        for line in lines(&table(report)) {
            out.push_str(&format!("{line}\n"));
        }
        out.push('\n');
        for warning in &report.warnings {
            out.push_str(&wrapped(&format!("warning: {warning}"), 2));
        }
        for note in conservation(report).iter().chain(&report.notes) {
            out.push_str(&wrapped(&format!("- {note}"), 2));
        }
        if let Some(sweep) = &report.sweep {
            out.push('\n');
            for line in lines(&sweep_table(sweep)) {
                out.push_str(&format!("{line}\n"));
            }
            out.push('\n');
            out += &wrapped(&verdict(sweep, report.conservation.as_ref()), 0);
            out.extend(command(report).map(|command| format!("\n{command}\n")));
        }
        out.push('\n');
    }
    out
}
