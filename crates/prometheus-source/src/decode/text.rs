//! JSON text of which only the beginning may have arrived.

use std::fmt;

use memchr::{memchr, memchr2};

use super::DecodeError;

/// Why reading a text ends before its value does.
#[derive(Debug)]
pub(crate) enum Stop {
    /// More of the text must arrive.
    Incomplete,
    /// The text cannot be used.
    Refused(DecodeError),
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Refused(error)
    }
}

/// A text that has something else where `wanted` must be. The text is not repeated, because
/// a part of a secret would not be masked.
pub(crate) fn malformed(wanted: impl fmt::Display) -> Stop {
    DecodeError::NotAnAnswer(format!("{wanted} is missing")).into()
}

/// The text without white space at its start.
#[inline]
pub(crate) fn trim(text: &str) -> &str {
    match text.as_bytes().first() {
        Some(b' ' | b'\t' | b'\n' | b'\r') => text.trim_start_matches([' ', '\t', '\n', '\r']),
        _ => text,
    }
}

/// The first byte after white space.
pub(crate) fn peek(text: &str) -> Result<u8, Stop> {
    trim(text).bytes().next().ok_or(Stop::Incomplete)
}

/// The text after the ASCII character `token`, which comes next.
#[inline]
pub(crate) fn after(text: &str, token: u8) -> Result<&str, Stop> {
    let text = trim(text);
    match text.as_bytes().first() {
        Some(byte) if *byte == token => Ok(&text[1..]),
        Some(_) => Err(malformed(char::from(token))),
        None => Err(Stop::Incomplete),
    }
}

/// The text after the end of an object or list, or the text of its next element: elements
/// are separated by commas.
#[derive(Debug)]
pub(crate) enum Next<'t> {
    Element(&'t str),
    End(&'t str),
}

/// What follows in an object or list that ends with `end`.
#[inline]
pub(crate) fn next<'t>(text: &'t str, is_first: bool, end: u8) -> Result<Next<'t>, Stop> {
    let text = trim(text);
    match text.as_bytes().first() {
        None => Err(Stop::Incomplete),
        Some(byte) if *byte == end => Ok(Next::End(&text[1..])),
        Some(b',') if !is_first => Ok(Next::Element(trim(&text[1..]))),
        Some(_) if is_first => Ok(Next::Element(text)),
        Some(_) => Err(malformed(',')),
    }
}

/// Splits a text after the string at its start, without its quotes and with its escapes.
#[inline]
pub(crate) fn string(text: &str) -> Result<(&str, &str), Stop> {
    let text = after(text, b'"')?;
    let mut from = 0;
    loop {
        let at = memchr2(b'"', b'\\', &text.as_bytes()[from..]).ok_or(Stop::Incomplete)? + from;
        if text.as_bytes()[at] == b'"' {
            return Ok((&text[..at], &text[at + 1..]));
        }
        from = at + 2;
        if from > text.len() {
            return Err(Stop::Incomplete);
        }
    }
}

/// Splits a text after the name of an object's member and its colon.
#[inline]
pub(crate) fn key(text: &str) -> Result<(&str, &str), Stop> {
    let (key, rest) = string(text)?;
    Ok((key, after(rest, b':')?))
}

/// Splits a text after the value of any kind at its start. The value's brackets are not
/// matched by kind, and its strings and numbers are not checked: a parser reads it later.
pub(crate) fn value(text: &str) -> Result<(&str, &str), Stop> {
    let text = trim(text);
    let rest = match text.as_bytes().first() {
        None => return Err(Stop::Incomplete),
        Some(b'"') => string(text)?.1,
        Some(b'{' | b'[') => after_nested(text)?,
        Some(_) => {
            let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
            &text[text.find(is_end).ok_or(Stop::Incomplete)?..]
        }
    };
    let length = text.len() - rest.len();
    match length {
        0 => Err(malformed("a value")),
        _ => Ok((&text[..length], rest)),
    }
}

/// The text after the object or list at its start.
fn after_nested(text: &str) -> Result<&str, Stop> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at = text.len() - string(&text[at..])?.1.len();
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Ok(&text[at..]);
        }
    }
    Err(Stop::Incomplete)
}

/// Splits a text after the label set at its start. The values of labels are strings, so
/// that the first closing brace after the end of a string ends the set.
#[inline]
pub(crate) fn labels(text: &str) -> Result<(&str, &str), Stop> {
    let text = trim(text);
    if peek(text)? != b'{' {
        return Err(DecodeError::NotAnAnswer("metric is no object".to_owned()).into());
    }
    let bytes = text.as_bytes();
    let end = memchr(b'}', bytes).ok_or(Stop::Incomplete)?;
    let is_after_a_string = match bytes.get(end.saturating_sub(2)..end) {
        // The quote may begin a string or be a part of one.
        Some(
            [
                b'{' | b':' | b',' | b'\\' | b' ' | b'\t' | b'\n' | b'\r',
                b'"',
            ],
        ) => false,
        Some([_, b'"']) => true,
        _ => false,
    };
    match is_after_a_string {
        true => Ok(text.split_at(end + 1)),
        false => value(text),
    }
}
