//! Replicas that share a Secret and APIServices.

mod interleaving;
mod properties;
mod rules;
mod world;
