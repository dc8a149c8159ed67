//! What DCGM data means: names, label schemes, owners, units. Pure.

pub mod fields;
