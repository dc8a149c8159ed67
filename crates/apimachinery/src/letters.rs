//! Escapes, shortens and masks external text for a terminal, a log or a message.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text with escapes (`\u001b`, as in JSON) in place of control characters, which move
/// a cursor or begin a line, and of characters that are invisible or change the direction
/// of text.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(moves) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if moves(letter) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out.into()
}

/// The beginning of a text: at most `most` bytes, and `…` if the text is longer.
#[must_use]
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let mut end = most.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end]).into()
}

/// A text with `***` in place of the secrets, which another program may repeat.
#[must_use]
pub fn masked<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    // Shorter ones may be part of any word.
    let secrets = secrets.into_iter().filter(|secret| secret.len() >= 4);
    let mut secrets: Vec<&str> = secrets.collect();
    // A secret may be part of another one.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    let masked = |text: String, secret| text.replace(secret, "***");
    secrets.into_iter().fold(text.to_owned(), masked)
}

/// Whether it is a control character (C0 or C1), has no width, separates lines, or is
/// for bidirectional text.
fn moves(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidirectional_characters_are_escaped() {
        assert_eq!(
            escaped("a\u{1b}[2J\nb\u{9b}c\u{202e}d\u{2028}é"),
            r"a\u001b[2J\u000ab\u009bc\u202ed\u2028é"
        );
        assert!(matches!(escaped("plain – é"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert!(matches!(shortened("abcé", 5), Cow::Borrowed("abcé")));
        assert_eq!(shortened("abcéé", 6), "abc…");
        assert_eq!(shortened("éé", 1), "…");
    }

    #[test]
    fn a_secret_within_another_one_is_masked_as_a_part_of_it() {
        let secrets = ["token", "the-token-2", "no"];
        assert_eq!(
            masked("no the-token-2, no token", secrets),
            "no ***, no ***"
        );
    }

    #[test]
    fn escaped_json_parses_to_the_same_value() {
        let said = "\"a\u{202e}\u{7f}\"";
        let read = |text: &str| serde_json::from_str::<String>(text).unwrap();
        assert_eq!(read(&escaped(said)), read(said));
    }
}
