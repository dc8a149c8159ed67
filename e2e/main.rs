//! Tests that start real things.
fn main() {}
