//! JSON text of which only the beginning may have arrived. [`DecodeError::Truncated`] means
//! that more of it is needed.

use std::fmt;

use memchr::{memchr, memchr2};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::DecodeError;

/// The error of a text that has something else where `wanted` must be. The text is not
/// repeated, because a part of a secret would not be masked.
#[cold]
pub(crate) fn malformed(wanted: impl fmt::Display) -> DecodeError {
    DecodeError::NotAnAnswer(format!("{wanted} is missing"))
}

/// Reads a text from its start on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    /// What is not yet read.
    pub(crate) rest: &'t str,
}

impl<'t> Cursor<'t> {
    /// Skips white space.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if let Some(b' ' | b'\t' | b'\n' | b'\r') = self.rest.as_bytes().first() {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        }
    }

    /// The first byte after white space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, DecodeError> {
        self.trim();
        let first = self.rest.as_bytes().first();
        first.copied().ok_or(DecodeError::Truncated)
    }

    /// Splits the text, which has a boundary of characters there.
    #[inline]
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Skips the ASCII character `token`, which comes next.
    #[inline]
    pub(crate) fn expect(&mut self, token: u8) -> Result<(), DecodeError> {
        self.trim();
        match self.rest.as_bytes().first() {
            Some(first) if *first == token => {
                self.rest = &self.rest[1..];
                Ok(())
            }
            Some(_) => Err(malformed(char::from(token))),
            None => Err(DecodeError::Truncated),
        }
    }

    /// Whether an object or list that ends with `end` has a further element, which is read
    /// next. Otherwise skips the end.
    #[inline]
    pub(crate) fn has_next(&mut self, is_first: bool, end: u8) -> Result<bool, DecodeError> {
        if self.peek()? == end {
            self.take(1);
            return Ok(false);
        }
        if !is_first {
            self.expect(b',')?;
            self.trim();
        }
        Ok(true)
    }

    /// A string without its quotes and with its escapes.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'t str, DecodeError> {
        self.expect(b'"')?;
        let bytes = self.rest.as_bytes();
        let mut from = 0;
        loop {
            let found = bytes.get(from..).and_then(|it| memchr2(b'"', b'\\', it));
            let at = found.ok_or(DecodeError::Truncated)? + from;
            if bytes[at] == b'"' {
                let string = self.take(at);
                self.take(1);
                return Ok(string);
            }
            from = at + 2;
        }
    }

    /// The name of an object's member; skips its colon.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<&'t str, DecodeError> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// A value of this type. Something follows it in an answer, so that a number at the end of
    /// the text may be cut.
    #[inline(never)]
    pub(crate) fn value<T: Deserialize<'t>>(&mut self) -> Result<T, DecodeError> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        match values.next() {
            Some(Ok(value)) if values.byte_offset() < self.rest.len() => {
                self.take(values.byte_offset());
                Ok(value)
            }
            Some(Err(error)) if !error.is_eof() => Err(DecodeError::NotAnAnswer(error.to_string())),
            _ => Err(DecodeError::Truncated),
        }
    }

    /// The text of a label set. The values of labels are strings, so that the first closing
    /// brace after the end of a string ends the set.
    #[inline]
    pub(crate) fn labels(&mut self) -> Result<&'t str, DecodeError> {
        if self.peek()? != b'{' {
            return Err(DecodeError::NotAnAnswer("metric is no object".to_owned()));
        }
        let bytes = self.rest.as_bytes();
        let end = memchr(b'}', bytes).ok_or(DecodeError::Truncated)?;
        // A quote after one of these may begin a string or be a part of one.
        match bytes.get(end.saturating_sub(2)..end) {
            Some([before, b'"']) if !b"{:,\\ \t\n\r".contains(before) => Ok(self.take(end + 1)),
            _ => {
                let text = self.rest;
                self.value::<IgnoredAny>()?;
                Ok(&text[..text.len() - self.rest.len()])
            }
        }
    }
}
