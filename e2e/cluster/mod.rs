//! The server in a real cluster, asked by a real autoscaler.

mod install;
mod lab;
mod memory;
mod scaling;
mod scaling_formula;
mod scaling_gaps;
mod scaling_table;
