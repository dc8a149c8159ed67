//! The metrics APIs: paths, parameters, encodings, `Status`.
//!
//! Every value comes from a provider, which waits for what it lacks. One request runs
//! through the layers of [`router`] and of [`aggregated_apiserver::api`], which know it by
//! its `request` ([`path`] says what is asked, `params` how), to one of the `handlers`,
//! the `answers` (`values`, `usage`) and an encoder (`json`, `proto`). What only the
//! configuration changes (`discovery`, `openapi`) is made once, in `documents`.

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
