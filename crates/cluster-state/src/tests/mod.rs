//! The watches against a server that lists, discards versions, forbids and fails.

mod authentication;
mod certificates;
mod client;

mod fixture;
mod keeper;
mod names;
mod owners;
mod reduction;
mod reviews;
mod served;
mod snapshot;
mod watches;
