//! Answers of any form, `{"status":…,"data":{"resultType":…,"result":[…]},…}`, read as they
//! arrive.
//!
//! Keys may come in any order and unknown ones are ignored (docs/stores.md, "Answers"). The
//! buffer holds no more than the part of the text that is not yet read: an element of the
//! result, or a value beside it.

use serde::Deserialize;
use serde_json::error::Category;

use super::text::{self, Next, Stop, malformed};
use super::{DecodeError, Nan};

/// The most bytes in the buffer, and thus of an element.
const MOST_BUFFERED: usize = 1 << 20;

/// Fewer bytes than this are not read before more arrive.
const LEAST_READ: usize = 64 << 10;

/// Reads the elements of a result.
pub(crate) trait Elements {
    /// Reads the element at the start of a text, and returns the text after it. After
    /// [`Stop::Incomplete`] the same element is read again with more of its text.
    ///
    /// # Errors
    /// When the element is incomplete or cannot be used.
    fn read<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop>;

    /// Says before the first element what the value NaN means.
    fn nan_means(&mut self, _: Nan) {}
}

/// Skips every element.
#[derive(Debug)]
pub(crate) struct Skipped;

impl Elements for Skipped {
    fn read<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop> {
        text::value(text).map(|(_, rest)| rest)
    }
}

/// What an answer says beside its elements.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelope {
    status: Option<String>,
    pub(crate) result_type: Option<String>,
    error_type: Option<String>,
    error: Option<String>,
    warnings: Option<Vec<String>>,
    is_partial: Option<bool>,
    has_data: bool,
    has_result: bool,
}

/// The object or list that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beginning,
    Answer,
    /// The object `data`.
    Data,
    /// The list `data.result`, or a list that is `data` itself.
    Result(List),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    OfData,
    OfAnswer,
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct AnswerDecoder {
    buffer: Vec<u8>,
    /// The size of the buffer from which reading makes sense.
    wanted: usize,
    place: Place,
    /// Whether nothing was read of the current object or list.
    is_first: bool,
    envelope: Envelope,
}

impl AnswerDecoder {
    pub(crate) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            wanted: LEAST_READ,
            place: Place::Beginning,
            is_first: true,
            envelope: Envelope::default(),
        }
    }

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
            let room = MOST_BUFFERED - self.buffer.len();
            let (taken, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(taken);
            bytes = rest;
            if self.buffer.len() >= self.wanted {
                self.read_buffer(elements)?;
            }
            if self.buffer.len() == MOST_BUFFERED {
                return Err(DecodeError::LargeElement);
            }
        }
        Ok(())
    }

    /// Ends the answer: reads the rest of the buffer. Returns what the answer says beside
    /// its elements.
    ///
    /// # Errors
    /// When the answer ends too early, is an error, or has no data.
    pub(crate) fn finish(mut self, elements: &mut impl Elements) -> Result<Envelope, DecodeError> {
        self.read_buffer(elements)?;
        match self.place {
            Place::End if self.buffer.is_empty() => self.envelope.of_success(),
            _ => Err(DecodeError::Truncated),
        }
    }

    /// Reads what is complete, and keeps the rest.
    fn read_buffer(&mut self, elements: &mut impl Elements) -> Result<(), DecodeError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let whole = match std::str::from_utf8(&buffer) {
            Ok(whole) => whole,
            // A character is cut at the end.
            Err(error) if error.error_len().is_none() => buffer
                .get(..error.valid_up_to())
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
                .unwrap_or_default(),
            Err(error) => return Err(DecodeError::NotAnAnswer(error.to_string())),
        };
        let mut rest = text::trim(whole);
        let stop = loop {
            match self.step(rest, elements) {
                Ok(next) => rest = text::trim(next),
                Err(stop) => break stop,
            }
        };
        let read = whole.len() - rest.len();
        match stop {
            Stop::Refused(error) => Err(error),
            Stop::Incomplete => {
                buffer.drain(..read);
                // An element is read again only if much more of it has arrived.
                self.wanted = LEAST_READ.max(2 * buffer.len()).min(MOST_BUFFERED);
                self.buffer = buffer;
                Ok(())
            }
        }
    }

    /// Reads one member of an object or one element of a list.
    fn step<'t>(&mut self, text: &'t str, elements: &mut impl Elements) -> Result<&'t str, Stop> {
        match self.place {
            Place::Beginning => {
                let rest = text::after(text, b'{')?;
                Ok(self.enter(Place::Answer, rest))
            }
            Place::Answer => self.member_of_answer(text),
            Place::Data => self.member_of_data(text),
            Place::Result(list) => match text::next(text, self.is_first, b']')? {
                Next::Element(element) => {
                    let rest = elements.read(element)?;
                    self.is_first = false;
                    Ok(rest)
                }
                Next::End(rest) => {
                    let outer = match list {
                        List::OfData => Place::Data,
                        List::OfAnswer => Place::Answer,
                    };
                    Ok(self.leave(outer, rest))
                }
            },
            Place::End if text.is_empty() => Err(Stop::Incomplete),
            Place::End => Err(malformed("the end of the answer")),
        }
    }

    fn enter<'t>(&mut self, place: Place, rest: &'t str) -> &'t str {
        (self.place, self.is_first) = (place, true);
        rest
    }

    fn leave<'t>(&mut self, place: Place, rest: &'t str) -> &'t str {
        (self.place, self.is_first) = (place, false);
        rest
    }

    fn member_of_answer<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop> {
        let member = match text::next(text, self.is_first, b'}')? {
            Next::Element(member) => member,
            Next::End(rest) => return Ok(self.leave(Place::End, rest)),
        };
        let (key, rest) = text::key(member)?;
        if key == "data" {
            match text::peek(rest)? {
                b'{' => {
                    self.envelope.has_data = true;
                    return Ok(self.enter(Place::Data, &text::trim(rest)[1..]));
                }
                b'[' => {
                    (self.envelope.has_data, self.envelope.has_result) = (true, true);
                    return Ok(self.enter(Place::Result(List::OfAnswer), &text::trim(rest)[1..]));
                }
                _ => {}
            }
        }
        let (value, rest) = text::value(rest)?;
        let envelope = &mut self.envelope;
        match key {
            "status" => envelope.status = parsed(value)?,
            "errorType" => envelope.error_type = parsed(value)?,
            "error" => envelope.error = parsed(value)?,
            "warnings" => envelope.warnings = parsed(value)?,
            "isPartial" => envelope.is_partial = parsed(value)?,
            _ => {}
        }
        self.is_first = false;
        Ok(rest)
    }

    fn member_of_data<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop> {
        let member = match text::next(text, self.is_first, b'}')? {
            Next::Element(member) => member,
            Next::End(rest) => return Ok(self.leave(Place::Answer, rest)),
        };
        let (key, rest) = text::key(member)?;
        if key == "result" && text::peek(rest)? == b'[' {
            self.envelope.has_result = true;
            return Ok(self.enter(Place::Result(List::OfData), &text::trim(rest)[1..]));
        }
        let (value, rest) = text::value(rest)?;
        if key == "resultType" {
            self.envelope.result_type = parsed(value)?;
        }
        self.is_first = false;
        Ok(rest)
    }
}

impl Envelope {
    fn of_success(self) -> Result<Self, DecodeError> {
        let missing = |part: &str| {
            let text = format!("its {part} is null or missing");
            Err(DecodeError::NotAnAnswer(text))
        };
        match self.status.as_deref() {
            Some("success") if !self.has_data => missing("data"),
            Some("success") if !self.has_result => missing("data.result"),
            Some("success") => Ok(self),
            Some("error") => Err(DecodeError::Status {
                error_type: self.error_type.unwrap_or_default(),
                error: self.error.unwrap_or_default(),
            }),
            status => Err(DecodeError::NotAnAnswer(format!(
                "its status is {status:?}"
            ))),
        }
    }

    /// Checks the type of the result.
    ///
    /// # Errors
    /// When it is another one.
    pub(crate) fn check_type(&self, wanted: &str) -> Result<(), DecodeError> {
        match self.result_type.as_deref() {
            Some(found) if found == wanted => Ok(()),
            found => {
                let found = found.unwrap_or("missing");
                let text = format!("resultType is {found:?} and not {wanted:?}");
                Err(DecodeError::NotAnAnswer(text))
            }
        }
    }

    /// The engine's warnings, with one for VictoriaMetrics' `isPartial`. Any of them may
    /// mean that series are missing (Thanos' partial responses, `results truncated due to
    /// limit`). Prometheus' `infos` are no warnings.
    pub(crate) fn warnings(self) -> Vec<String> {
        let mut warnings = self.warnings.unwrap_or_default();
        if self.is_partial == Some(true) {
            warnings.push("the engine marks its answer as partial (isPartial)".to_owned());
        }
        warnings
    }
}

/// The `errorType` and `error` in the body of an HTTP error, if it has the API's form.
pub(crate) fn api_error(body: &[u8]) -> Option<(String, String)> {
    let mut decoder = AnswerDecoder::new();
    let fed = decoder.feed(body, &mut Skipped);
    match fed.and_then(|()| decoder.finish(&mut Skipped)) {
        Err(DecodeError::Status { error_type, error }) => Some((error_type, error)),
        _ => None,
    }
}

/// A value whose text is complete.
pub(crate) fn parsed<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, DecodeError> {
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => DecodeError::Truncated,
        Category::Data | Category::Syntax | Category::Io => {
            DecodeError::NotAnAnswer(error.to_string())
        }
    })
}
