//! Numbers as the cells of a table show them.

pub(crate) fn shown<T>(known: Option<T>, text: impl Fn(T) -> String) -> String {
    known.map_or_else(|| "–".to_owned(), text)
}

pub(crate) fn count(known: Option<i32>) -> String {
    shown(known, |number| number.to_string())
}

/// A number with at most one digit after the point.
pub(crate) fn whole(number: f64) -> String {
    format!("{number:.1}").trim_end_matches(".0").to_owned()
}
