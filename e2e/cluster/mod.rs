//! The server in a real cluster, asked by a real autoscaler.

pub(crate) mod asking;
mod backtesting;
mod check;
mod crowd;
mod explaining;
mod explaining_sync;
mod explaining_table;
mod gpus;
mod install;
pub(crate) mod lab;
mod manual;
mod memory;
mod outages;
mod page;
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
mod unanswered;
