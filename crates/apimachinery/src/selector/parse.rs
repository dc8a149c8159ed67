//! The parser of selector text: a lexer and a recursive descent, token for token as in
//! apimachinery `pkg/labels/selector.go`.

use super::{Operator, Requirement};

use std::fmt::Display;

/// The longest text.
const MAX_BYTES: usize = 8 * 1024;
/// The most requirements of one selector.
const MAX_REQUIREMENTS: usize = 64;
/// The most values of all requirements together.
const MAX_VALUES: usize = 256;
/// The longest name or value of a label.
pub(super) const MAX_NAME: usize = 63;
/// The longest DNS prefix of a label's name.
const MAX_PREFIX: usize = 253;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Equals,
    NotEquals,
    Not,
    Open,
    Close,
    Comma,
    Greater,
    Less,
    Unknown(&'t str),
    End,
}

impl Token<'_> {
    fn text(&self) -> String {
        let text = match self {
            Self::Word(text) | Self::Unknown(text) => text,
            Self::Equals => "=",
            Self::NotEquals => "!=",
            Self::Not => "!",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        };
        shorten(text)
    }
}

/// Quotes a client's text, cut to a length that still identifies it.
fn shorten(text: &str) -> String {
    let mut cut: String = text.chars().take(64).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("{cut:?}")
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn invalid(reason: impl Display) -> String {
    format!("unable to parse label selector: {reason}")
}

fn expected(found: Token<'_>, wanted: &str) -> String {
    invalid(format_args!("found {}, expected: {wanted}", found.text()))
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    values: usize,
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    if text.len() > MAX_BYTES {
        return Err(invalid(format!(
            "longer than {MAX_BYTES} bytes: ask with fewer requirements"
        )));
    }
    let mut parser = Parser {
        text,
        at: 0,
        values: 0,
    };
    let mut requirements = Vec::new();
    if parser.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Not => {}
            other => return Err(expected(other, "!, identifier, or end of string")),
        }
        if requirements.len() == MAX_REQUIREMENTS {
            return Err(invalid(format!(
                "more than {MAX_REQUIREMENTS} requirements: ask with fewer"
            )));
        }
        requirements.push(parser.requirement()?);
        match parser.next() {
            Token::End => break,
            Token::Comma => {}
            other => return Err(expected(other, "',' or end of string")),
        }
    }
    requirements.sort();
    requirements.dedup();
    Ok(requirements)
}

impl<'t> Parser<'t> {
    fn next(&mut self) -> Token<'t> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).copied().is_some_and(is_space) {
            self.at += 1;
        }
        let start = self.at;
        let Some(&first) = bytes.get(start) else {
            return Token::End;
        };
        if !is_special(first) {
            while bytes
                .get(self.at)
                .is_some_and(|&byte| !is_special(byte) && !is_space(byte))
            {
                self.at += 1;
            }
            return self
                .text
                .get(start..self.at)
                .map_or(Token::End, Token::Word);
        }
        self.at += 1;
        let doubled = bytes.get(self.at) == Some(&b'=');
        match first {
            b'=' | b'!' if doubled => {
                self.at += 1;
                if first == b'=' {
                    Token::Equals
                } else {
                    Token::NotEquals
                }
            }
            b'=' => Token::Equals,
            b'!' => Token::Not,
            b'(' => Token::Open,
            b')' => Token::Close,
            b',' => Token::Comma,
            b'>' => Token::Greater,
            b'<' => Token::Less,
            _ => Token::Unknown(self.text.get(start..self.at).unwrap_or_default()),
        }
    }

    fn peek(&mut self) -> Token<'t> {
        let at = self.at;
        let token = self.next();
        self.at = at;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token == Token::Not;
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(expected(token, "identifier"));
        };
        check_key(key)?;
        let operator = if negated {
            Operator::DoesNotExist
        } else if matches!(self.peek(), Token::End | Token::Comma) {
            Operator::Exists
        } else {
            self.operator()?
        };
        Ok(Requirement {
            key: key.to_owned(),
            operator,
        })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.next() {
            Token::Equals => Ok(Operator::Equals(self.exact_value()?.to_owned())),
            Token::NotEquals => Ok(Operator::NotEquals(self.exact_value()?.to_owned())),
            Token::Greater => Ok(Operator::GreaterThan(self.bound()?)),
            Token::Less => Ok(Operator::LessThan(self.bound()?)),
            Token::Word("in") => Ok(Operator::In(self.value_list()?)),
            Token::Word("notin") => Ok(Operator::NotIn(self.value_list()?)),
            other => Err(expected(other, "in, notin, =, ==, !=, >, <")),
        }
    }

    fn exact_value(&mut self) -> Result<&'t str, String> {
        match self.peek() {
            Token::End | Token::Comma => self.value(""),
            Token::Word(word) => {
                self.next();
                self.value(word)
            }
            other => Err(expected(other, "identifier")),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let text = self.exact_value()?;
        text.parse()
            .map_err(|_| invalid(format!("{} is not an integer", shorten(text))))
    }

    /// `(a,b)`; as upstream, an empty position is the empty value, even as the only one:
    /// `()`.
    fn value_list(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(expected(other, "'('")),
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Token::Word(word) => {
                    self.next();
                    values.push(self.value(word)?.to_owned());
                }
                Token::Comma | Token::Close => values.push(self.value("")?.to_owned()),
                other => return Err(expected(other, "',', ')' or identifier")),
            }
            match self.next() {
                Token::Comma => {}
                Token::Close => break,
                other => return Err(expected(other, "',' or ')'")),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    fn value(&mut self, value: &'t str) -> Result<&'t str, String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(invalid(format!(
                "more than {MAX_VALUES} values: ask with fewer"
            )));
        }
        if value.is_empty() || is_name(value) {
            Ok(value)
        } else {
            Err(invalid(format!(
                "{} is not a label value: at most {MAX_NAME} of A-Z a-z 0-9 - _ ., \
                 beginning and ending with a letter or digit",
                shorten(value)
            )))
        }
    }
}

/// A qualified name (apimachinery `pkg/util/validation`, `IsQualifiedName`).
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if is_name(name) && prefix.is_none_or(is_dns_subdomain) {
        return Ok(());
    }
    Err(invalid(format!(
        "{} is not a label name: an optional DNS prefix and '/', then at most {MAX_NAME} \
         of A-Z a-z 0-9 - _ ., beginning and ending with a letter or digit",
        shorten(key)
    )))
}

fn is_name(text: &str) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= MAX_NAME
        && alphanumeric(text.as_bytes().first())
        && alphanumeric(text.as_bytes().last())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_PREFIX
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        })
}
