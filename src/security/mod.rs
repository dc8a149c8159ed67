//! Who asks, and whether they may: small tower layers around the API.
//!
//! Nothing here can reach the data: a fault in this module refuses and never
//! leaks. Reviews go out through the [`reviewer::Reviewer`] trait.

pub mod identity;
pub mod reviewer;
