//! Charts as SVG, without a script. The page has the styles.

pub mod lines;
mod sparkline;

pub use sparkline::sparkline;
