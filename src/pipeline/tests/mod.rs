//! The arithmetic of the reference, row by row, through the whole pipeline.

mod averages;
mod intervals;
mod lasting;
mod membership;
mod properties;
mod rows;
mod scene;
mod shared;
mod silence;
mod steady;
mod unknown;
mod weather;
