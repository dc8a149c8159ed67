//! The arithmetic of the reference, row by row, through the whole pipeline.

mod attack;
mod attribution;
mod averages;
mod explained;
mod findings;
mod hostile;
mod intervals;
mod membership;
mod pair;
mod properties;
mod returns;
mod rows;
mod rules;
mod scene;
mod shared;
mod silence;
mod steady;
mod unknown;
mod weather;
