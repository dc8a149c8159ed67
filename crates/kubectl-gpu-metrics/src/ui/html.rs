//! What all pages share: frame, tables, notes. Everything from a cluster is escaped
//! as text; nothing is marked as safe.

use std::collections::BTreeSet;

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use crate::Failure;
use crate::check::live::UNREAD;
use crate::table::is_number;

use super::query::link;
use super::{Ask, Content, TABS, Tab};

const NUMBER: &str = "<td class=\"n\">";

/// Advice for a user without a right to all namespaces.
const NAMESPACE_HINT: &str = ". At the top of the page, enter a namespace that you may read";

/// The largest number of notes shown at once; the others are behind a line that opens.
const FEW: usize = 3;

/// A whole page: its content, or why that could not be read.
pub(super) fn document(tab: Tab, ask: &Ask, content: Result<Content, Failure>) -> Response {
    let (code, content) = match content {
        Ok(content) => (StatusCode::OK, content),
        Err(failure) => {
            let (code, hint) = match failure {
                Failure::Usage(_) => (StatusCode::BAD_REQUEST, ""),
                Failure::Refused(_) if tab.is_namespaced() => {
                    (StatusCode::FORBIDDEN, NAMESPACE_HINT)
                }
                Failure::Refused(_) => (StatusCode::FORBIDDEN, ""),
                _ => (StatusCode::BAD_GATEWAY, ""),
            };
            let said = html! { strong { "This could not be read. " } (failure) (hint) };
            let content = Content {
                title: tab.name.to_owned(),
                status: "could not be read".to_owned(),
                body: alert(&said),
            };
            (code, content)
        }
    };
    let title = format!("{} – {} – GPU metrics", content.title, ask.cluster_name);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href="./page.css";
                link rel="icon" type="image/svg+xml" href="./icon.svg";
                script src="./page.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header {
                    p.brand { "GPU metrics" span { (ask.cluster_name) } }
                    (navigation(tab, ask))
                    @if tab.is_namespaced() { (namespaces(tab, ask)) }
                }
                main #content data-every=(tab.every()) {
                    @if let Some((cause, remedy)) = &ask.trouble {
                        (alert(&html! { strong { (UNREAD) ". " } (cause) ": " (remedy) }))
                    }
                    h1 { (content.title) }
                    (content.body)
                }
                footer {
                    p #status role="status" { (content.status) }
                    p #refresh {}
                }
            }
        }
    };
    (code, Html(page.into_string())).into_response()
}

/// Why there are no values; a screen reader announces it at once.
pub(super) fn alert(said: &Markup) -> Markup {
    html! { div.failure role="alert" { (said) } }
}

fn navigation(active: Tab, ask: &Ask) -> Markup {
    let namespace = ask.query.word("namespace").unwrap_or_default();
    html! {
        nav aria-label="Pages" {
            ul {
                @for tab in TABS {
                    @let kept = if tab.is_namespaced() { namespace } else { "" };
                    @let current = (tab == active).then_some("page");
                    li { a href=(link(tab.path, [("namespace", kept)])) aria-current=[current] { (tab.name) } }
                }
            }
        }
    }
}

fn namespaces(tab: Tab, ask: &Ask) -> Markup {
    html! {
        form action=(link(tab.path, [])) {
            label for="namespace" { "Namespace " }
            input #namespace name="namespace" value=(ask.namespace.as_deref().unwrap_or_default())
                placeholder="all" autocomplete="off" spellcheck="false";
            " " button { "Show" }
        }
    }
}

/// A table with its caption. A wide one scrolls within its frame, which has keyboard
/// focus.
pub(super) fn table(caption: &str, headings: &[Markup], rows: &[Vec<Markup>]) -> Markup {
    // A heading is aligned with the numbers of its column.
    let is_number = |row: &Vec<Markup>, column: usize| {
        row.get(column).is_some_and(|it| it.0.starts_with(NUMBER))
    };
    let numeric = (0..).map(|column| rows.iter().any(|row| is_number(row, column)));
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { span { (caption) } }
                thead {
                    tr {
                        @for (heading, is_numeric) in headings.iter().zip(numeric) {
                            th.n[is_numeric] scope="col" { (heading) }
                        }
                    }
                }
                tbody {
                    @for row in rows { tr { @for cell in row { (cell) } } }
                }
            }
        }
    }
}

pub(super) fn headings<T: AsRef<str>>(names: &[T]) -> Vec<Markup> {
    names.iter().map(|name| html! { (name.as_ref()) }).collect()
}

/// A heading, with its meaning as a tooltip.
pub(super) fn described(heading: &str, meaning: Option<&str>) -> Markup {
    html! { span title=[meaning] { (heading) } }
}

/// A cell; numbers are right-aligned.
pub(super) fn cell(text: &str) -> Markup {
    let class = is_number(text).then_some("n");
    html! { td class=[class] { (text) } }
}

pub(super) fn words(text: &str) -> Markup {
    html! { td.words { (text) } }
}

pub(super) fn name(text: &str, href: &str) -> Markup {
    // Lines may break after a slash.
    let parts = text.split_inclusive('/');
    html! { th scope="row" { a href=(href) { @for part in parts { (part) wbr; } } } }
}

pub(super) fn notes(notes: &BTreeSet<String>) -> Markup {
    let list = html! { ul.notes { @for note in notes { li { (note) } } } };
    html! {
        @if notes.len() > FEW {
            details #notes { summary { (notes.len()) " notes" } (list) }
        } @else if !notes.is_empty() {
            (list)
        }
    }
}
