//! The meaning of DCGM data: names, label schemes, owners, units. Pure.

pub mod fields;
pub mod metrics;
pub(crate) mod origin;
pub mod schemes;
