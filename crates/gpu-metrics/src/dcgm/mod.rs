//! The meaning of DCGM data: names, label schemes, owners, units. Pure.

pub mod fields;
pub mod intake;
mod known;
pub mod metrics;
pub mod origin;
pub mod schemes;
