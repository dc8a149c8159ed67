//! The server in a real cluster, asked by a real autoscaler.

pub(crate) mod asking;
mod crowd;
mod install;
pub(crate) mod lab;
mod memory;
mod outages;
mod readme;
mod refusals;
mod rolling;
mod rotations;
mod scaling;
mod scaling_formula;
mod scaling_gaps;
mod scaling_table;
mod scene;
mod stand;
mod top;
mod trickle;
mod trust;
