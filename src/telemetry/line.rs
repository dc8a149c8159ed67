//! Log lines: each event is one line, whatever its text contains.

use std::io::{self, Write};

use apimachinery::letters::escaped;

/// Writes each event as one line. It expects one event per write, as
/// `tracing_subscriber::fmt` does. The formatter's colours are kept.
#[derive(Debug)]
pub(super) struct Escaped<W>(pub(super) W);

/// The start of a colour sequence.
const COLOUR: &str = "\u{1b}[";

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.0.write_all(line(&text).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn line(event: &str) -> String {
    let text = event.strip_suffix('\n').unwrap_or(event);
    let mut parts = text.split(COLOUR);
    let mut line = escaped(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let digits = part.trim_start_matches(|it: char| it.is_ascii_digit() || it == ';');
        match digits.starts_with('m') {
            true => line.push_str(COLOUR),
            false => line.push_str(&escaped(COLOUR)),
        }
        line.push_str(&escaped(part));
    }
    if text.len() < event.len() {
        line.push('\n');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_and_keeps_its_colours() {
        let event = "\u{1b}[2mnow\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m a\nb\u{1b}[2Jc\u{202e}d\n";
        let written =
            "\u{1b}[2mnow\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m a\\u000ab\\u001b[2Jc\\u202ed\n";
        let mut log = Escaped(Vec::new());
        log.write_all(event.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(log.0).unwrap(), written);
    }
}
