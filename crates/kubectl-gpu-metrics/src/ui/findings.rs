//! The findings of `check`, and the page of each check.

use std::sync::Arc;

use maud::{Markup, html};

use findings::{Report, Severity, codes};

use crate::Failure;
use crate::check::live::look_at;
use crate::check::mark;

use super::query::link;
use super::{Ask, Content, markdown};

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let report = look_at(&ask.cluster, ask.namespace.as_deref(), false).await?;
    let counts = report.counts();
    let [errors, warnings, infos] = counts;
    let skipped = report.skipped.len();
    Ok(Content {
        title: "Findings".to_owned(),
        status: format!(
            "errors: {errors}, warnings: {warnings}, notes: {infos}, skipped: {skipped}"
        ),
        body: html! {
            dl.tiles {
                @for (severity, count) in Severity::ALL.into_iter().zip(counts) {
                    div class=(severity.name()) { dt { (mark(severity)) " " (severity.name()) } dd { (count) } }
                }
                div { dt { "skipped" } dd { (skipped) } }
            }
            (list(&report))
        },
    })
}

/// The findings, and what could not be checked. Sentences, because a table does not
/// fit narrow windows.
pub(super) fn list(report: &Report) -> Markup {
    html! {
        @if report.findings.is_empty() {
            p { "The checks that ran found nothing." }
        } @else {
            ul.cards {
                @for it in &report.findings {
                    @let severity = it.severity.name();
                    li class=(severity) {
                        p {
                            span class=(severity) { (mark(it.severity)) " " (severity) } " "
                            a href=(link("check", [("code", it.code)])) { (it.code) } " "
                            strong { (it.object) }
                        }
                        p { (it.message) }
                        p.remedy { (it.remedy) }
                        @if let Some(command) = &it.command { pre { (command) } }
                    }
                }
            }
        }
        @if !report.skipped.is_empty() {
            h2 { "Skipped: the result is unknown" }
            ul.cards {
                @for it in &report.skipped {
                    li {
                        p { strong { (it.what) } }
                        p { (it.reason) }
                        p.remedy { (it.remedy) }
                    }
                }
            }
        }
    }
}

pub(super) async fn check(ask: Arc<Ask>) -> Result<Content, Failure> {
    let id = ask.need("code")?;
    let code = codes::find(id)
        .ok_or_else(|| Failure::Usage(format!("{id} is not the code of a finding")))?;
    Ok(Content {
        title: format!("{}: {}", code.id, code.title),
        status: String::new(),
        body: html! { article { (markdown::shown(code.page)) } },
    })
}
