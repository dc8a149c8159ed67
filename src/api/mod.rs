//! The metrics APIs: paths, parameters, encodings, `Status`.
//!
//! Every value comes from a provider, which waits for missing data. A request runs through the
//! layers of [`router`] and of [`aggregated_apiserver::api`], which use its parsed `request`
//! ([`path`] contains the target, `params` the query). It continues to
//! the `answers` (`values`, `usage`) and to an encoder (`value_list`, `messages`). Documents
//! that depend only on the configuration are made once, in `configured_documents`.

mod answers;
mod configured_documents;
pub mod group;
mod messages;
pub mod params;
pub mod path;
pub(crate) mod request;
pub mod router;
#[cfg(test)]
mod tests;
mod usage;
mod value_list;
mod values;

pub use answers::Api;
