//! The figures side by side, as text.

use crate::replay::{Conservation, Sweep};
use crate::table::lines;

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

/// The unchanged autoscaler, the best variant, and one for each of the other figures on
/// the front.
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
    ];
    let best = sweep.best.and_then(|best| sweep.rows.get(best));
    let front = sweep.rows.iter().filter(|row| row.is_on_front);
    let front = front.map(|row| ("", row));
    let all = std::iter::once(("", &sweep.as_it_is));
    let all = all.chain(best.map(|row| ("best", row))).chain(front);
    let mut rows: Vec<(Vec<String>, [String; 6])> = Vec::new();
    for (mark, row) in all {
        let (fit, score) = (row.fit, row.score);
        let or = |text: Option<String>| text.unwrap_or_else(|| "as it is".to_owned());
        let settings = vec![
            mark.to_owned(),
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
        let mut variants = rows.iter().skip(1);
        if !variants.any(|(_, known)| *known == figures) {
            rows.push((settings, figures));
        }
    }
    let rows = rows.into_iter();
    let rows = rows.map(|(settings, figures)| [&settings[..], &figures].concat());
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
            out.push_str(&format!("warning: {warning}\n"));
        }
        for note in conservation(report).iter().chain(&report.notes) {
            out.push_str(&format!("- {note}\n"));
        }
        if let Some(sweep) = &report.sweep {
            out.push('\n');
            for line in lines(&sweep_table(sweep)) {
                out.push_str(&format!("{line}\n"));
            }
            out.push('\n');
            out += &format!("{}\n", verdict(sweep, report.conservation.as_ref()));
            out.extend(command(report).map(|command| format!("\n{command}\n")));
        }
        out.push('\n');
    }
    out
}
