//! What holds for every input of a parser. `cargo fuzz` searches for inputs that break it;
//! `tests/corpus.rs` tries the known ones and mutations of them in `make test`.

pub mod answers;
pub mod certificates;
pub mod configuration;
pub mod kubeconfigs;
pub mod paths;
pub mod rules;

/// Checks that a message is one line of the log.
fn check_line(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
}
