//! Charts as SVG, without a script: lines of numbers, with their words. The page has
//! the styles.

pub mod lines;
mod sparkline;

pub use sparkline::sparkline;
