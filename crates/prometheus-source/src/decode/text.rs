//! JSON text of which only the beginning may have arrived. [`DecodeError::Truncated`] means
//! that more of it is needed.

use std::fmt;

use memchr::{memchr, memchr2};

use super::DecodeError;

/// The error of a text that has something else where `wanted` must be. The text is not
/// repeated, because a part of a secret would not be masked.
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
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

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
        if self.peek()? != token {
            return Err(malformed(char::from(token)));
        }
        self.take(1);
        Ok(())
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

    /// The text of a value of any kind. Its brackets are not matched by kind, and its strings
    /// and numbers are not checked: a parser reads it later.
    pub(crate) fn value(&mut self) -> Result<&'t str, DecodeError> {
        let text = match self.peek()? {
            b'"' | b'{' | b'[' => self.nested()?,
            _ => {
                let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
                let length = self.rest.find(is_end);
                self.take(length.ok_or(DecodeError::Truncated)?)
            }
        };
        match text {
            "" => Err(malformed("a value")),
            text => Ok(text),
        }
    }

    /// The text of a string, object or list.
    fn nested(&mut self) -> Result<&'t str, DecodeError> {
        let mut at = 0;
        let mut depth = 0_usize;
        loop {
            match self.rest.as_bytes().get(at) {
                None => return Err(DecodeError::Truncated),
                Some(b'"') => {
                    let mut inner = Self::new(&self.rest[at..]);
                    inner.string()?;
                    at = self.rest.len() - inner.rest.len() - 1;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                Some(_) => {}
            }
            at += 1;
            if depth == 0 {
                return Ok(self.take(at));
            }
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
            _ => self.value(),
        }
    }
}
