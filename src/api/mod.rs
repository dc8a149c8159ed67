//! The metrics APIs: paths, parameters, encodings, `Status`.
//!
//! Every value comes from a provider, which waits for missing data. A request runs through the
//! layers of [`router`] and of [`aggregated_apiserver::api`], which use its parsed `request`
//! ([`path`] contains the target, `params` the query). It continues to one of the `handlers`,
//! to the `answers` (`values`, `usage`) and to an encoder (`json`, `proto`). Documents that
//! depend only on the configuration (`discovery`, `openapi`) are made once, in `documents`.

mod answers;
mod buffer;
mod count;
mod described;
mod discovery;
mod documents;
mod failure;
pub mod group;
mod handlers;
mod json;
mod layers;
mod list;
mod messages;
mod openapi;
mod params;
pub mod path;
mod proto;
pub(crate) mod request;
pub mod router;
mod selector_echo;
#[cfg(test)]
mod tests;
mod usage;
mod usage_messages;
mod values;
mod version;

pub use answers::Api;
