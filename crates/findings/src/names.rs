//! Foreign names: suggestions, and how to show them.

use strsim::osa_distance;

use apimachinery::letters::escaped;

/// The longest name compared: the work grows with its length, and the API server does not
/// bound names of metrics.
const LONGEST: usize = 512;

/// Most letters shown of a foreign text.
const MOST_LETTERS: usize = 1000;

/// The nearest name, if at most `most` insertions, removals, replacements or swaps of
/// neighbouring letters turn one into the other; the first of several. Case is ignored.
pub fn nearest<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Option<&'n str> {
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_lowercase();
    let rated = known
        .into_iter()
        .map(|known| (osa_distance(&name, &known.to_lowercase()), known));
    let best = rated.min_by_key(|(distance, _)| *distance)?;
    (best.0 <= most).then_some(best.1)
}

/// A foreign text on one line, for logs and terminals: cut, and escaped.
#[must_use]
pub(crate) fn plain(text: &str) -> String {
    match text.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}…", escaped(&text[..end])),
        None => escaped(text).into_owned(),
    }
}

/// `; did you mean NAME?`, to end an error, or nothing: a quarter of the letters may be
/// wrong, and always one.
pub fn hint<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let meant = nearest(name, known, (name.chars().count() / 4).max(1));
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_is_escaped_and_what_is_long_is_cut() {
        assert_eq!(plain("a\u{1b}[2J\nb"), r"a\u001b[2J\u000ab");
        let long = plain(&"x".repeat(1_000_000));
        assert_eq!((long.chars().count(), long.ends_with("x…")), (1001, true));
        assert_eq!(nearest(&"gpu".repeat(1_000_000), ["gpu"], 9_999_999), None);
    }
}
