//! Charts as SVG, without a script. The page has the styles.

pub(crate) mod lines;
