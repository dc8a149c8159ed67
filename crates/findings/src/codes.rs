//! The codes of findings, which `build.rs` makes of the pages in docs/checks. A retired code
//! is never reused.

use super::Severity;

/// A kind of finding.
#[derive(Debug)]
pub struct Code {
    /// `GM504`.
    pub id: &'static str,
    /// The usual severity.
    pub severity: Severity,
    /// Its subject, in one line.
    pub title: &'static str,
    /// How it is corrected, where a finding does not say it for its case.
    pub remedy: &'static str,
    /// Its page, as Markdown.
    pub page: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/codes.rs"));

/// What ends when an error of a code is corrected, by the code; of several causes of a finding
/// the first one counts.
pub(super) static CAUSES: &[(&Code, &[&Code])] = &[
    (&GM201, &[&GM102, &GM103, &GM105, &GM515]),
    (&GM202, &[&GM515]),
    (&GM101, &[&GM515]),
    (&GM102, &[&GM515]),
    (&GM103, &[&GM515]),
    (&GM301, &[&GM515]),
    (&GM402, &[&GM515]),
];

/// The code with this `id`, in upper or lower case.
#[must_use]
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter()
        .find(|code| code.id.eq_ignore_ascii_case(id))
        .copied()
}
