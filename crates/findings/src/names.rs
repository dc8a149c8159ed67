//! Names from the cluster: suggestions for misspelt ones, and lists of them in messages.

use strsim::osa_distance;

/// The largest number of names in a message; further names are only counted.
const MOST_NAMES: usize = 5;

/// The nearest name, if at most `most` insertions, removals, replacements or swaps of
/// neighbouring letters turn one into the other; the first of several. Case is ignored.
pub fn nearest<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Option<&'n str> {
    let name = name.to_lowercase();
    let rated = known
        .into_iter()
        .map(|known| (osa_distance(&name, &known.to_lowercase()), known));
    let best = rated.min_by_key(|(distance, _)| *distance)?;
    (best.0 <= most).then_some(best.1)
}

/// The first names, and the number of the others.
pub(crate) fn listed(names: impl IntoIterator<Item: AsRef<str>>) -> String {
    let mut names = names.into_iter();
    let first: Vec<_> = names.by_ref().take(MOST_NAMES).collect();
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// `; did you mean NAME?` for the end of an error, or nothing. A quarter of the letters
/// may differ, and at least one.
pub fn hint<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let meant = nearest(name, known, (name.chars().count() / 4).max(1));
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}
