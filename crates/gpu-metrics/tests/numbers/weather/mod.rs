//! Conditions of real clusters: late, duplicate, mixed and partly missing data.
//!
//! ```text
//!  row (fleets, weather)                       named, or drawn from a seed
//!      │
//!      ▼
//!  World (targets, devices, pods)
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
//! sees the store's whole content and shares no code with the pipeline. docs/weather.md has
//! the promises, and how to run some worlds.

mod drive;
mod jump;
mod named;
mod oracle;
mod promises;
mod random;
mod replica;
mod row;
mod store;
mod times;
mod world;
