//! Text for a terminal: wrapped at 80 columns, and printed.

use std::io::{self, Write};

use apimachinery::letters::escaped;

const WIDTH: usize = 80;

/// Wraps longer lines at blanks. Continuation lines are indented by `hang` more
/// columns than their line. A word longer than a line stays whole, and so does a line
/// with a command, which is copied.
pub(super) fn wrapped(text: &str, hang: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.contains("kubectl ") {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len() + hang);
        let (mut column, mut begun) = (0, false);
        for (place, word) in line.split(' ').enumerate() {
            let letters = word.chars().count();
            if begun && !word.is_empty() && column + 1 + letters > WIDTH {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.push_str(&indent);
                column = indent.len();
            } else if place > 0 {
                out.push(' ');
                column += 1;
            }
            begun |= !word.is_empty();
            out.push_str(word);
            column += letters;
        }
        out.push('\n');
    }
    out
}

/// Text for a terminal, with control characters escaped: it may contain text from
/// elsewhere.
#[must_use]
pub fn shown(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Prints text as [`shown`]. Returns whether the output is still open.
pub(super) fn print(text: &str) -> bool {
    writeln!(io::stdout(), "{}", shown(text)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words_and_continue_with_an_indent() {
        let (a, b) = ("a".repeat(50), "–".repeat(30));
        assert_eq!(
            wrapped(&format!("  {a} {b}"), 2),
            format!("  {a}\n    {b}\n")
        );
        assert_eq!(wrapped(&format!("{}{a}", &a[..29]), 0).lines().count(), 1);
        let short = format!("  x   {a}\n\n{}\n", a.repeat(2));
        assert_eq!(wrapped(&short, 2), short);
    }
}
