//! Makes the table of codes (`src/codes.rs`) of the pages in docs/checks. The first line of a
//! page has the severity, the list and the remedy of its code, the second the title:
//!
//! ```text
//! <!-- warning, data: set both clocks by NTP -->
//! # GM303: a clock is wrong
//! ```

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

/// The lists, by their word on the pages.
const LISTS: [(&str, &str); 6] = [
    ("apiservices", "The codes about the APIServices"),
    (
        "controller",
        "The codes about the rights of the HPA controller",
    ),
    ("data", "The codes about the data of the store"),
    ("hpas", "The codes about an HPA and its peers"),
    (
        "installation",
        "The codes about rights, flags and files, which only `check` reads",
    ),
    ("server", "The codes of findings about the server itself"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../docs/checks");
    println!("cargo::rerun-if-changed={}", folder.display());
    let pages = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut pages = pages.collect::<io::Result<Vec<_>>>()?;
    pages.sort();
    let (mut table, mut all) = (String::new(), [const { Vec::new() }; LISTS.len()]);
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let stem = page.file_stem().unwrap_or_default().to_string_lossy();
        let fault = || format!("{} does not begin as build.rs says", page.display());
        let (list, declared) = declaration(&stem, &text).ok_or_else(fault)?;
        table += &declared;
        all[list].push(format!("&{stem}"));
    }
    let ids = all.concat().join(", ");
    writeln!(
        table,
        "/// All codes, in the order of the lists.\npub static ALL: &[&Code] = &[{ids}];"
    )?;
    for ((word, about), ids) in LISTS.iter().zip(all) {
        let (word, ids) = (word.to_uppercase(), ids.join(", "));
        writeln!(
            table,
            "/// {about}.\npub static OF_{word}: &[&Code] = &[{ids}];"
        )?;
    }
    let file = Path::new(&env::var("OUT_DIR")?).join("codes.rs");
    Ok(fs::write(file, table)?)
}

/// The list of a page's code, and the code in Rust.
fn declaration(id: &str, text: &str) -> Option<(usize, String)> {
    let (first, page) = text.split_once(" -->\n")?;
    let (severity, rest) = first.strip_prefix("<!-- ")?.split_once(", ")?;
    let (word, remedy) = rest.split_once(": ")?;
    let list = LISTS.iter().position(|(list, _)| *list == word)?;
    let title = page.lines().next()?.strip_prefix(&format!("# {id}: "))?;
    let severity = match severity {
        "error" => "Error",
        "warning" => "Warning",
        "info" => "Info",
        _ => return None,
    };
    let code = format!(
        "/// {title}.\npub static {id}: Code = Code {{ id: {id:?}, severity: Severity::{severity}, \
         title: {title:?}, remedy: {remedy:?}, page: {page:?} }};\n"
    );
    Some((list, code))
}
