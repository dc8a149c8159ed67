//! Log lines: each event is one line, whatever its text contains.

use std::io::{self, Write};

use apimachinery::letters::escaped;

/// Writes each event as one line. It expects one event per write, as
/// `tracing_subscriber::fmt` does.
#[derive(Debug)]
pub(super) struct Escaped<W>(pub(super) W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = escaped(text.strip_suffix('\n').unwrap_or(&text));
        self.0.write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let mut log = Escaped(Vec::new());
        let event = "now ERROR a\nb\u{1b}[2Jc\u{202e}d\n";
        log.write_all(event.as_bytes()).unwrap();
        let written = "now ERROR a\\u000ab\\u001b[2Jc\\u202ed\n";
        assert_eq!(String::from_utf8(log.0).unwrap(), written);
    }
}
