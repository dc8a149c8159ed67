//! The configuration in force, as the server reports it, without secrets.

use std::sync::Arc;

use maud::{Markup, html};

use crate::Failure;
use crate::explain::failure;
use crate::values::FindingList;

use super::html::{headings, table};
use super::{Ask, Content};

pub(super) async fn view(ask: Arc<Ask>) -> Result<Content, Failure> {
    let said = FindingList::read(&ask.cluster).await;
    let said = said.map_err(|error| failure(&error))?;
    if said.configuration.is_empty() {
        let what = "the server that answers does not serve its configuration: upgrade it";
        return Err(Failure::Failed(what.to_owned()));
    }
    let row = |(key, value): &(String, String)| {
        vec![html! { th scope="row" { (key) } }, html! { td { (value) } }]
    };
    let rows: Vec<Vec<Markup>> = said.configuration.iter().map(row).collect();
    Ok(Content {
        title: "Configuration in force".to_owned(),
        status: format!("{} settings", rows.len()),
        body: html! {
            p.meaning { "From the replica that answered. Addresses, credentials and queries are not shown." }
            (table("Settings", &headings(&["KEY", "VALUE"]), &rows))
        },
    })
}
