//! The watches against a server that lists, forgets, forbids and breaks.

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
mod services;
mod watches;
