//! Renders the pages of checks: headings, paragraphs, lists, code. The pages are part
//! of the program, so only the Markdown that they use is supported.

use maud::{Markup, html};

/// A page without its first heading.
pub(super) fn shown(page: &str) -> Markup {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# ") || line.trim().is_empty() {
            continue;
        }
        let goes_on = |line: &&str| !line.trim().is_empty();
        if let Some(heading) = line.strip_prefix("## ") {
            blocks.push(html! { h2 { (spans(heading)) } });
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines
                .by_ref()
                .take_while(|it| !it.starts_with("```"))
                .collect();
            blocks.push(html! { pre tabindex="0" { code { (code.join("\n")) } } });
        } else {
            let mut text = vec![line];
            while let Some(line) = lines.next_if(goes_on) {
                text.push(line);
            }
            blocks.push(paragraph(&text));
        }
    }
    html! { @for block in blocks { (block) } }
}

fn paragraph(lines: &[&str]) -> Markup {
    if lines.iter().all(|line| line.starts_with('|')) {
        return cells(lines);
    }
    if !lines.iter().any(|line| line.starts_with("- ")) {
        return html! { p { (spans(&lines.join(" "))) } };
    }
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (line.strip_prefix("- "), items.last_mut()) {
            (None, Some(item)) => *item += &format!(" {}", line.trim()),
            (item, _) => items.push(item.unwrap_or(line).to_owned()),
        }
    }
    html! { ul { @for item in items { li { (spans(&item)) } } } }
}

fn cells(lines: &[&str]) -> Markup {
    let split = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_matches('|');
        inner.split('|').map(|it| it.trim().to_owned()).collect()
    };
    let is_rule = |line: &str| line.chars().all(|it| "|-: ".contains(it));
    let rows = lines.iter().skip(1).filter(|line| !is_rule(line));
    html! {
        table {
            @for line in lines.iter().take(1) { tr { @for cell in split(line) { th scope="col" { (spans(&cell)) } } } }
            @for line in rows { tr { @for cell in split(line) { td { (spans(&cell)) } } } }
        }
    }
}

/// A text without the addresses of its links: they lead to pages of the repository.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(begin) = plain.rfind('[') {
            plain.remove(begin);
        }
        plain.push_str(part.split_once(')').map_or(part, |(_, after)| after));
    }
    plain
}

/// Every second part between backquotes is code.
fn spans(text: &str) -> Markup {
    html! {
        @for (place, piece) in without_addresses(text).split('`').enumerate() {
            @if place % 2 == 1 { code { (piece) } } @else { (piece.replace("**", "")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use findings::codes;

    #[test]
    fn a_link_is_its_text() {
        for (text, plain) in [
            ("see [a `b`](#c) and [d](../#e).", "see a `b` and d."),
            ("values[0] are (x)", "values[0] are (x)"),
        ] {
            assert_eq!(without_addresses(text), plain);
        }
    }

    #[test]
    fn every_page_of_a_check_is_shown_without_markdown_syntax() {
        for code in codes::ALL {
            let html = shown(code.page).into_string();
            assert!(
                html.contains("<h2>How to fix it</h2>"),
                "{}: {html}",
                code.id
            );
            let (start, end) = ("<pre tabindex=\"0\">", "</pre>");
            let prose = html
                .split(start)
                .map(|it| it.split_once(end).map_or(it, |(_, rest)| rest));
            let prose: String = prose.collect();
            for mark in ["```", "](", "**", "\n#", "|--"] {
                assert!(!prose.contains(mark), "{}: {mark}: {prose}", code.id);
            }
        }
    }
}
