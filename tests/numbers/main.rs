//! The numbers, row by row and in simulated weather, through the whole pipeline.

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
