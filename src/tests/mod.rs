//! Tests of the repository as a whole.

mod citations;
mod layering;
mod words;
