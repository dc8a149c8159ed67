//! The server in a real cluster, asked by a real autoscaler.

mod asking;
mod crowd;
mod lab;
mod outages;
mod refusals;
mod rolling;
mod rotations;
mod scaling;
mod scene;
mod stand;
mod trickle;
mod trust;
