//! Reports as text, JSON and annotations.

use serde_json::json;

use findings::{Finding, Report, Severity};

use crate::wrap::wrapped;

use super::CheckOutput;

pub(crate) const fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "×",
        Severity::Warning => "‼",
        Severity::Info => "i",
    }
}

pub(super) fn page(report: &Report, output: CheckOutput, success: bool) -> String {
    match output {
        CheckOutput::Json => {
            let Report {
                findings, skipped, ..
            } = report;
            let value = json!({"success": success, "findings": findings, "skipped": skipped});
            serde_json::to_string_pretty(&value).unwrap_or_default()
        }
        CheckOutput::Text => text(report).trim_end().to_owned(),
        CheckOutput::Short => lines(report, |it| {
            let name = it.severity.name();
            format!("{} {name} {}: {}", it.code, place(it), it.message)
        }),
        CheckOutput::Github => lines(report, annotation),
    }
}

fn place(finding: &Finding) -> String {
    match &finding.file {
        Some(file) => format!("{} in {file}", finding.object),
        None => finding.object.clone(),
    }
}

fn text(report: &Report) -> String {
    let mut parts: Vec<String> = Vec::new();
    for it in &report.findings {
        let head = format!("{} {}  {}", mark(it.severity), it.code, place(it));
        let part = format!("{head}\n  {}\n  → {}\n", it.message, it.remedy);
        let mut part = wrapped(&part, 2);
        // A line break would make it several commands.
        if let Some(command) = &it.command {
            part.push_str(&format!("    {command}\n"));
        }
        part.push_str(&format!("  {}, or: check --explain {}\n", it.url, it.code));
        parts.push(part);
    }
    for it in &report.skipped {
        let part = format!(
            "- skipped: {}\n  {}\n  → {}\n",
            it.what, it.reason, it.remedy
        );
        parts.push(wrapped(&part, 2));
    }
    let [errors, warnings, notes] = report.counts();
    parts.push(format!(
        "errors: {errors}, warnings: {warnings}, notes: {notes}; skipped: {}",
        report.skipped.len()
    ));
    parts.join("\n")
}

fn lines(report: &Report, line: impl Fn(&Finding) -> String) -> String {
    let found = report.findings.iter().map(line);
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|it| format!("skipped {}: {}: {}", it.what, it.reason, it.remedy));
    let skipped = skipped.map(|line| line.replace('\n', " "));
    found.chain(skipped).collect::<Vec<_>>().join("\n")
}

/// A workflow command (GitHub's documentation, "Workflow commands").
fn annotation(finding: &Finding) -> String {
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let command = match finding.severity {
        Severity::Info => "notice",
        severity => severity.name(),
    };
    let file = finding.file.as_deref();
    let file = file.map_or_else(String::new, |file| format!("file={},", property(file)));
    let title = property(&format!("{} {}", finding.code, finding.object));
    let remedy = finding.command.as_ref();
    let remedy = remedy.map(|run| format!("{}: {run}", finding.remedy));
    let remedy = remedy.as_ref().unwrap_or(&finding.remedy);
    let message = data(&format!("{}: {remedy}", finding.message));
    format!("::{command} {file}title={title}::{message}")
}
