//! Answers of any form, `{"status":…,"data":{"resultType":…,"result":[…]},…}`, read as they
//! arrive.
//!
//! Keys may come in any order and unknown ones are ignored (docs/stores.md, "Answers"). The
//! buffer holds no more than the part of the text that is not yet read: an element of the
//! result, or a value beside it.

use serde::de::IgnoredAny;

use super::DecodeError;
use super::text::{Cursor, malformed};

/// The most bytes in the buffer, and thus of an element.
const MOST_BUFFERED: usize = 1 << 20;

/// Fewer bytes than this are not read before more arrive.
const LEAST_READ: usize = 64 << 10;

/// Reads the elements of a result.
pub(crate) trait Elements {
    /// Reads the next element. After [`DecodeError::Truncated`] the same element is read again
    /// with more of its text.
    ///
    /// # Errors
    /// When the element is incomplete or cannot be used.
    fn read(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError>;

    /// Says before the first element that NaN is no sample.
    fn skip_nan(&mut self) {}

    /// Ends the elements of a complete answer.
    ///
    /// # Errors
    /// When the answer is of another type, or may be partial.
    fn end(&mut self, _envelope: Envelope) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// What an answer says beside its elements.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    status: Option<String>,
    result_type: Option<String>,
    warnings: Option<Vec<String>>,
    is_partial: Option<bool>,
    has_result: bool,
}

/// The object or list that is read: the answer, its object `data`, or the list of elements,
/// which is `data.result` or `data` itself.
#[derive(Clone, Copy, Debug)]
enum Part {
    Answer,
    Data,
    Elements,
}

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerDecoder {
    buffer: Vec<u8>,
    /// The size of the buffer after the last reading.
    unread: usize,
    /// The parts that have begun and not ended, the innermost last.
    open: Vec<Part>,
    /// Whether something was read of the innermost part.
    has_begun: bool,
    envelope: Envelope,
}

impl AnswerDecoder {
    /// Reads the next bytes of an answer.
    ///
    /// # Errors
    /// When the answer cannot be used.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        elements: &mut impl Elements,
    ) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            // An element is read again only if much more of it has arrived.
            let wanted = LEAST_READ.max(2 * self.unread).min(MOST_BUFFERED);
            let room = wanted - self.buffer.len();
            let (taken, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(taken);
            bytes = rest;
            if self.buffer.len() == wanted {
                self.read_buffer(elements)?;
            }
            if self.buffer.len() == MOST_BUFFERED {
                let (limit, parts) = (MOST_BUFFERED, "bytes in one series");
                return Err(DecodeError::TooMany { limit, parts });
            }
        }
        Ok(())
    }

    /// Ends the answer: reads the rest of the buffer.
    ///
    /// # Errors
    /// When the answer ends too early, or has no data.
    pub(crate) fn finish(mut self, elements: &mut impl Elements) -> Result<(), DecodeError> {
        self.read_buffer(elements)?;
        match self.has_begun && self.open.is_empty() && self.buffer.is_empty() {
            true => elements.end(self.envelope.of_success()?),
            false => Err(DecodeError::Truncated),
        }
    }

    /// Reads what is complete, and keeps the rest.
    fn read_buffer(&mut self, elements: &mut impl Elements) -> Result<(), DecodeError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let whole = match std::str::from_utf8(&buffer) {
            Ok(whole) => whole,
            // A character is cut at the end.
            Err(error) if error.error_len().is_none() => {
                let whole = std::str::from_utf8(&buffer[..error.valid_up_to()]);
                whole.unwrap_or_default()
            }
            Err(error) => return Err(DecodeError::NotAnAnswer(error.to_string())),
        };
        let mut text = Cursor { rest: whole };
        loop {
            text.trim();
            let mut ahead = text;
            match self.step(&mut ahead, elements) {
                Ok(()) => text = ahead,
                Err(DecodeError::Truncated) => break,
                Err(error) => return Err(error),
            }
        }
        buffer.drain(..whole.len() - text.rest.len());
        self.unread = buffer.len();
        self.buffer = buffer;
        Ok(())
    }

    /// Reads one member of an object or one element of a list.
    fn step(
        &mut self,
        text: &mut Cursor<'_>,
        elements: &mut impl Elements,
    ) -> Result<(), DecodeError> {
        let Some(part) = self.open.last().copied() else {
            return match text.peek()? {
                b'{' if !self.has_begun => self.enter(Part::Answer, text),
                _ => Err(malformed("a single JSON object")),
            };
        };
        let end = match part {
            Part::Elements => b']',
            Part::Answer | Part::Data => b'}',
        };
        if !text.has_next(!self.has_begun, end)? {
            self.open.pop();
        } else if let Part::Elements = part {
            elements.read(text)?;
        } else {
            let key = text.key()?;
            match (part, key, text.peek()?) {
                (Part::Answer, "data", b'{') => return self.enter(Part::Data, text),
                (Part::Answer, "data", b'[') | (Part::Data, "result", b'[') => {
                    self.envelope.has_result = true;
                    return self.enter(Part::Elements, text);
                }
                _ => self.envelope.set(key, text)?,
            }
        }
        self.has_begun = true;
        Ok(())
    }

    fn enter(&mut self, part: Part, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        self.has_begun = false;
        self.open.push(part);
        let bracket = text.peek()?;
        text.expect(bracket)
    }
}

impl Envelope {
    /// Reads the value of a member of the answer or of its `data`.
    fn set(&mut self, key: &str, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        match key {
            "status" => self.status = text.value()?,
            "resultType" => self.result_type = text.value()?,
            "warnings" => self.warnings = text.value()?,
            "isPartial" => self.is_partial = text.value()?,
            _ => {
                text.value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn of_success(self) -> Result<Self, DecodeError> {
        match self.status.as_deref() {
            Some("success") if self.has_result => Ok(self),
            Some("success") => Err(malformed("its data or its data.result")),
            _ => Err(malformed("status: success")),
        }
    }

    /// The type of the result; empty if the answer states none.
    pub(crate) fn result_type(&self) -> &str {
        self.result_type.as_deref().unwrap_or_default()
    }

    /// Checks that the answer has all series of a matrix. Any warning of the engine may mean
    /// that series are missing (Thanos' partial responses, `results truncated due to limit`),
    /// and so does VictoriaMetrics' `isPartial`. Prometheus' `infos` are no warnings.
    pub(super) fn check_matrix(self) -> Result<(), DecodeError> {
        if self.result_type() != "matrix" {
            return Err(DecodeError::ResultType(self.result_type().to_owned()));
        }
        let mut warnings = self.warnings.unwrap_or_default();
        if self.is_partial == Some(true) {
            warnings.push("isPartial".to_owned());
        }
        match &warnings[..] {
            [] => Ok(()),
            some => Err(DecodeError::Partial(some.join("; "))),
        }
    }
}
