//! The metrics APIs: paths, parameters, encodings, `Status`.
//!
//! Every answer comes from memory; expensive ones are computed off the threads that serve
//! connections (`compute`). A request passes the layers of [`router`], which share its
//! `context` ([`path`] reads the target, `params` and `negotiate` the manner). It then
//! reaches one of the `handlers`, the `answers` (`values`, `usage`), an encoder (`json`,
//! `proto`) and `response`; every failure is mapped by the table of `status`. Documents
//! that depend only on the configuration (`discovery`, `aggregated`, `openapi`) are built
//! once, in `documents`. `asked` records which questions were answered.

mod aggregated;
mod answers;
mod asked;
mod buffer;
mod compute;
mod context;
mod count;
mod denied;
mod described;
mod discovery;
mod documents;
mod forms;
pub mod group;
mod handlers;
mod json;
mod layers;
mod list;
mod messages;
mod negotiate;
mod object;
mod openapi;
mod params;
pub mod path;
mod proto;
mod quote;
pub mod recalled;
mod response;
mod rfc3339;
pub mod router;
mod selector_echo;
mod status;
#[cfg(test)]
mod tests;
mod usage;
mod usage_messages;
mod values;
mod version;

pub use answers::Api;
pub use response::refusal;
