//! The meaning of DCGM data: names, label schemes, owners, units. Pure.

pub mod fields;
pub mod intake;
pub mod metrics;
pub mod origin;
pub mod schemes;
