//! The frame around the content of each page, and the request for a page.

use std::sync::Arc;

use axum::response::{Html, IntoResponse, Response};
use configuration::Flags;
use http::{StatusCode, Uri};
use maud::{DOCTYPE, Markup, html};

use super::query::{Query, link};
use super::{Source, past};
use crate::Failure;
use crate::cluster::Cluster;
use crate::devices;
use crate::document::cell::Reference;
use crate::document::html::{Addresses, content};
use crate::document::{Block, Document};
use crate::history::History;
use crate::kinds::AUTOSCALERS;
use crate::top::{TopArgs, What};

/// A page: its path, and its name in the tab row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tab {
    pub(super) path: &'static str,
    pub(super) name: &'static str,
    /// Whether it shows one namespace or all.
    pub(super) is_namespaced: bool,
    /// Refresh interval in seconds; 0: the page does not change. Charts need queries of the
    /// past, and findings some hundred requests.
    pub(super) every: u32,
}

const fn tab(path: &'static str, name: &'static str, is_namespaced: bool, every: u32) -> Tab {
    Tab {
        path,
        name,
        is_namespaced,
        every,
    }
}

pub(super) const FLEET: Tab = tab("", "Fleet", false, 30);
pub(super) const GPUS: Tab = tab("gpus", "GPUs", false, 5);
pub(super) const WORKLOADS: Tab = tab("workloads", "Workloads", true, 5);
pub(super) const PODS: Tab = tab("pods", "Pods", true, 5);
pub(super) const NAMESPACES: Tab = tab("namespaces", "Namespaces", false, 5);
pub(super) const HPAS: Tab = tab("hpas", "Autoscalers", true, 5);
pub(super) const FINDINGS: Tab = tab("findings", "Findings", true, 60);
pub(super) const WHY: Tab = tab("why", "Why this value", false, 30);
pub(super) const HPA: Tab = tab("hpa", "Why these replicas", false, 30);
pub(super) const SOURCES: Tab = tab("sources", "Sources", false, 5);
pub(super) const GPU: Tab = tab("gpu", "GPU", false, 30);
pub(super) const CHECK: Tab = tab("check", "Check", false, 0);

const TABS: [Tab; 8] = [
    FLEET, WORKLOADS, PODS, NAMESPACES, GPUS, HPAS, FINDINGS, SOURCES,
];

/// The most rows of a table on a page.
const ROWS: usize = 100;

/// The request for a page.
#[derive(Debug)]
pub(super) struct Ask {
    /// With the requested namespace, or that of the context.
    pub(super) cluster: Cluster,
    /// The requested namespace; `None`: all.
    pub(super) namespace: Option<String>,
    pub(super) query: Query,
    tab: Tab,
    flags: Arc<Flags>,
    cluster_name: Arc<str>,
}

impl Ask {
    pub(super) fn new(tab: Tab, source: &Source, uri: &Uri) -> Self {
        let query = Query::of(uri);
        let namespace = match query.get("namespace") {
            Some("") => None,
            Some(name) => Some(name.to_owned()),
            None => source.namespace.clone(),
        };
        let default = &source.cluster.namespace;
        let cluster = source.cluster.within(namespace.as_ref().unwrap_or(default));
        Self {
            cluster,
            namespace,
            query,
            tab,
            flags: Arc::clone(&source.flags),
            cluster_name: Arc::clone(&source.name),
        }
    }

    /// The store with the past.
    pub(super) async fn history(&self) -> Result<History, Failure> {
        History::of(&self.flags, Ok(self.cluster.clone())).await
    }

    /// The arguments of `top` for the requested rows.
    pub(super) fn args(&self, what: What) -> TopArgs {
        TopArgs::all(what, self.namespace.is_none(), self.query.word("sort"))
    }

    pub(super) fn need(&self, name: &str) -> Result<&str, Failure> {
        let word = self.query.word(name);
        word.ok_or_else(|| {
            Failure::Usage(format!(
                "the address of this page names no {name}: open it by a link"
            ))
        })
    }

    /// The whole page: its document, or why that could not be read.
    pub(super) fn page(&self, document: Result<Document, Failure>) -> Response {
        let (code, title, body) = match document {
            Ok(mut document) => {
                let pages = self.arrange(&mut document);
                let body = html! {
                    (content(&document, self))
                    @if pages > 1 { (self.pager(pages)) }
                };
                (StatusCode::OK, document.title, body)
            }
            Err(failure) => {
                let code = match failure {
                    Failure::Usage(_) => StatusCode::BAD_REQUEST,
                    Failure::Refused(_) => StatusCode::FORBIDDEN,
                    _ => StatusCode::BAD_GATEWAY,
                };
                // A screen reader announces it at once.
                let told = html! {
                    div.failure role="alert" {
                        strong { "This could not be read. " } (failure)
                    }
                };
                (code, self.tab.name.to_owned(), told)
            }
        };
        let main = html! {
            h1 { (title) }
            (body)
        };
        (code, Html(self.framed(&title, &main).into_string())).into_response()
    }

    fn framed(&self, title: &str, main: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " – " (self.cluster_name) " – GPU metrics" }
                    link rel="stylesheet" href="./page.css";
                    link rel="icon" type="image/svg+xml" href="./icon.svg";
                    script src="./page.js" defer {}
                }
                body {
                    a.skip href="#content" { "Skip to content" }
                    header {
                        p.brand { "GPU metrics" span { (self.cluster_name) } }
                        (self.navigation())
                        @if TABS.contains(&self.tab) { (self.form()) }
                    }
                    main #content data-every=(self.tab.every) { (main) }
                    footer { p #refresh {} }
                }
            }
        }
    }

    fn navigation(&self) -> Markup {
        let namespace = self.query.word("namespace").unwrap_or_default();
        html! {
            nav aria-label="Pages" {
                ul {
                    @for tab in TABS {
                        @let kept = if tab.is_namespaced { namespace } else { "" };
                        @let current = (tab == self.tab).then_some("page");
                        li { a href=(link(tab.path, [("namespace", kept)])) aria-current=[current] { (tab.name) } }
                    }
                }
            }
        }
    }

    fn form(&self) -> Markup {
        let value = |name: &str| self.query.word(name).unwrap_or_default();
        let namespace = self.namespace.as_deref().unwrap_or_default();
        html! {
            form action=(link(self.tab.path, [])) {
                @if self.tab.is_namespaced {
                    label for="namespace" { "Namespace " }
                    input #namespace name="namespace" value=(namespace)
                        placeholder="all" autocomplete="off" spellcheck="false";
                }
                label for="filter" { " Filter " }
                input #filter name="filter" value=(value("filter")) autocomplete="off" spellcheck="false";
                @if !value("sort").is_empty() { input type="hidden" name="sort" value=(value("sort")); }
                " " button { "Show" }
            }
        }
    }

    /// Leaves the rows that contain the filter, and of these one page; a map stays whole.
    /// Returns the number of pages.
    fn arrange(&self, document: &mut Document) -> usize {
        let filter = self.query.word("filter").unwrap_or_default().to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let mut most = 1;
        for block in &mut document.blocks {
            let Block::Table(table) = block else {
                continue;
            };
            let (is_map, rows) = (table.is_map(), &mut table.rows);
            rows.retain(|row| row.iter().any(|cell| has(&cell.shown())));
            if !is_map {
                let pages = rows.len().div_ceil(ROWS).max(1);
                let first = (self.number().min(pages) - 1) * ROWS;
                *rows = rows.drain(first..rows.len().min(first + ROWS)).collect();
                most = most.max(pages);
            }
        }
        most
    }

    /// The number of the page of rows, from 1.
    fn number(&self) -> usize {
        let number = self.query.word("page").and_then(|it| it.parse().ok());
        number.unwrap_or(1).max(1)
    }

    fn pager(&self, pages: usize) -> Markup {
        html! {
            nav.pager aria-label="Rows" {
                "Rows: "
                @for number in 1..=pages {
                    @let (first, last) = ((number - 1) * ROWS + 1, number * ROWS);
                    @let current = (number == self.number().min(pages)).then_some("true");
                    a href=(self.query.with(self.tab.path, "page", &number.to_string())) aria-current=[current] {
                        (first) "–" (last)
                    }
                    " "
                }
            }
        }
    }
}

impl Addresses for Ask {
    fn of(&self, object: &Reference) -> Option<String> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        match &*object.resource {
            _ if object.name.is_empty() => None,
            "checks" => Some(link("check", [("code", &*object.name)])),
            past::PERIOD => Some(self.query.with(self.tab.path, "period", &object.name)),
            devices::GPUS => Some(link("gpu", [("uuid", &*object.name)])),
            AUTOSCALERS => Some(link(
                "hpa",
                [("namespace", namespace), ("name", &object.name)],
            )),
            resource => Some(link(
                "why",
                [
                    ("resource", resource),
                    ("namespace", namespace),
                    ("name", &object.name),
                ],
            )),
        }
    }

    fn sorted(&self, word: &str) -> Option<String> {
        // Tables of other pages are not those of `top`.
        let is_list = TABS.contains(&self.tab) && self.tab != SOURCES;
        is_list.then(|| self.query.with(self.tab.path, "sort", word))
    }
}
