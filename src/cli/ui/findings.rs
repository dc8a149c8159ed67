//! What is wrong, as `check` tells it, and the page of each check.

use std::sync::Arc;

use maud::{Markup, html};

use super::html::{cell, headings, table, words};
use super::query::link;
use super::{Ask, Content, markdown};
use crate::cli::Failure;
use crate::cli::check::live::look_at;
use crate::cli::check::print::mark;
use crate::findings::{Finding, Report, Severity, codes};

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let report = look_at(&ask.cluster, ask.namespace.as_deref(), false).await?;
    let counts = report.counts();
    let [errors, warnings, infos] = counts;
    let skipped = report.skipped.len();
    Ok(Content {
        title: "Findings".to_owned(),
        status: format!(
            "{errors} errors, {warnings} warnings, {infos} notes; {skipped} not looked at"
        ),
        body: html! {
            dl.tiles {
                @for (severity, count) in Severity::ALL.into_iter().zip(counts) {
                    div class=(severity.name()) { dt { (mark(severity)) " " (severity.name()) } dd { (count) } }
                }
                div { dt { "not looked at" } dd { (skipped) } }
            }
            (list(&report))
        },
    })
}

/// What was found, and what could not be looked at.
pub(super) fn list(report: &Report) -> Markup {
    let rows: Vec<Vec<Markup>> = report.findings.iter().map(row).collect();
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|it| {
        [&it.what, &it.reason, &it.remedy]
            .map(|it| words(it))
            .to_vec()
    });
    let skipped: Vec<Vec<Markup>> = skipped.collect();
    html! {
        @if rows.is_empty() {
            p { "Nothing was found in what could be looked at." }
        } @else {
            (table("What is wrong", &headings(&["SEVERITY", "CODE", "OBJECT", "WHAT IS WRONG", "WHAT TO DO"]), &rows))
        }
        @if !skipped.is_empty() {
            (table("Not looked at: it may be well or not", &headings(&["WHAT", "WHY NOT", "WHAT TO DO"]), &skipped))
        }
    }
}

fn row(it: &Finding) -> Vec<Markup> {
    vec![
        html! { td class=(it.severity.name()) { (mark(it.severity)) " " (it.severity.name()) } },
        html! { th scope="row" { a href=(link("check", [("code", it.code)])) { (it.code) } } },
        cell(&it.object),
        words(&it.message),
        words(&it.remedy),
    ]
}

/// What a code means, and how to mend it.
pub(super) async fn check(ask: Arc<Ask>) -> Result<Content, Failure> {
    let id = ask.need("code")?;
    let code =
        codes::find(id).ok_or_else(|| Failure::Usage(format!("{id} is no code of a finding")))?;
    Ok(Content {
        title: format!("{}: {}", code.id, code.title),
        status: String::new(),
        body: html! { article { (markdown::shown(code.page)) } },
    })
}
