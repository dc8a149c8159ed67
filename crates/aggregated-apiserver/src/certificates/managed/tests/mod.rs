//! Tests of replicas that share a Secret and APIServices.

mod properties;
mod rules;
mod world;
