//! The metrics APIs: paths, parameters, encodings, `Status`.
//!
//! Every value comes from a provider, which waits for what it lacks. One request runs
//! through the layers of [`router`], which know it by its `context` ([`path`] says what
//! is asked, `params` and `negotiate` how), to one of the `handlers`, the
//! `answers` (`values`, `usage`), an encoder (`json`, `proto`) and `response`; whatever
//! fails on the way ends in the one table of `status`. What only the
//! configuration changes (`discovery`, `aggregated`, `openapi`) is made once, in
//! `documents`.

mod aggregated;
mod answers;
mod buffer;
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
