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
//! sees the store's whole content and shares no code with the pipeline.
//!
//! # Run
//!
//! `WEATHER=TEXT` runs the named worlds whose names contain the text, `WORLDS` says how many
//! random worlds run (150), and `SEED` is the first of them (a new one each time):
//!
//! ```text
//! WEATHER="5of10" cargo test -p gpu-metrics --test numbers weather::named
//! SEED=1 WORLDS=10000 cargo test --release -p gpu-metrics --test numbers weather::random -- --nocapture
//! ```
//!
//! A random world that breaks a promise is printed with its seed and as a row for `named`;
//! `target/tmp/broken-worlds.txt` keeps it. `SEED` and `WORLDS=1` repeat it. The test fails if
//! more than three of a hundred do.
//!
//! # Promises
//!
//! At each poll, and just before it, each pod, Deployment, the namespace and the cluster are
//! asked for the mean, the sum and the number of held GPUs. F, S, L and E are those of
//! docs/numbers.md.
//!
//! - A value that can be known is served at least 99.9 % of the time: while each GPU has a
//!   reading now, or at the end of the window if that is earlier. In a group up to 8 % of the
//!   GPUs may lack one, by number and by value.
//! - A sum is no more than a tenth below the truth, and never above it. A mean is off by a tenth
//!   at most, or by two points of a percent. While no GPU is silent, both are between the least
//!   and the greatest value of the window's instants.
//! - A value that is not known is absent. No simulated GPU is ever idle, so a 0 is wrong.
//! - A pod's value ends within F + L + 15 s, a poll and a step after the last reading, those of a
//!   group within the same time after too many of its GPUs are missing.
//! - A second replica starts while the world runs. In no two polls in a row do the two differ by
//!   more than 5 %, or does only one have a value, from 2 S after the start.
//!
//! Exceptions:
//!
//! | where | what |
//! |---|---|
//! | an exporter whose clock is more than 120 s behind | its pods have no values, and the sums of their groups end |
//! | a replica that starts within a window and F after pods ended | may differ for a window and F: it does not know when they ended |
//! | replicas at S ≥ 60 s | may keep differing: each has seen few and different readings |
//! | replicas until 2 F after an outage or a step of a clock or of the store's lateness | may differ: L is measured from the readings |
//! | a store that was late before an outage and is not after it | values come back up to two scrapes later |
//! | a GPU whose percents end while its profiling field stays | up to 150 s are not checked |
//! | a replica that starts more than 20 minutes into a silence | may serve a mean that the other does not |
//! | a GPU with two exporters, one of which stands still | sums are a few percent low, or absent, for a poll |
//! | a reading that does not change | counts for ten minutes or 4 S |

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
