//! The watches with a server that lists, forgets, forbids and fails.

mod authentication;
mod certificates;
mod client;
mod departed;
mod fixture;
mod kinds;
mod names;
mod owners;
mod reduction;
mod reviews;
mod served;
mod services;
mod watches;
