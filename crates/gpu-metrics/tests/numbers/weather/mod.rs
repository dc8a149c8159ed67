//! Conditions of real clusters: late, duplicate, mixed and partly missing data.
//!
//! ```text
//!  World (a description: fleets, weather)      named, or drawn from a seed
//!      │
//!      ▼
//!  Built (targets, devices, pods) ──► cluster: the inventory at a time
//!      │
//!      ▼
//!  Store (every sample, when it was taken and when it arrived)
//!      │                  │
//!      ▼                  ▼
//!  replica: Pipeline    oracle: must a value be there, may it, is it right
//!      └───────┬──────────┘
//!              ▼
//!            drive ──► broken promises
//! ```
//!
//! Time is virtual, in seconds from [`ZERO`](super::scene::ZERO). The oracle
//! sees the store's whole content and shares no code with the pipeline.
//!
//! For each value it asks whether it must be there, whether it may be served,
//! and between which bounds it lies; docs/weather.md has the promises.
//!
//! `WEATHER=steady15 cargo test -p gpu-metrics --test numbers weather::named` runs the
//! worlds whose names contain that text (all without it), `WORLDS=100000` makes the random
//! run longer, and `SEED=…` sets its first seed.

mod build;
mod cluster;
mod content;
mod drive;
mod jump;
mod named;
mod oracle;
mod promises;
mod random;
mod replica;
mod times;
mod world;

/// A time after every world.
const FOREVER: f64 = 1e9;
