//! The parser of selector text: a lexer and a recursive descent, token for token as in
//! apimachinery `pkg/labels/selector.go`.

use std::fmt::Display;

use super::{Operator, Requirement};
use crate::letters::shortened;

/// The longest text.
const MAX_BYTES: usize = 8 * 1024;
/// The most requirements of one selector.
const MAX_REQUIREMENTS: usize = 64;
/// The most values of all requirements together.
const MAX_VALUES: usize = 256;
/// The longest name or value of a label.
const MAX_NAME: usize = 63;
/// The longest DNS prefix of a label's name.
const MAX_PREFIX: usize = 253;

/// Quotes a client's text, cut to a length that still identifies it.
fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text, 64))
}

fn invalid(reason: impl Display) -> String {
    format!("unable to parse label selector: {reason}")
}

fn expected(found: &str, wanted: &str) -> String {
    invalid(format_args!("found {}, expected: {wanted}", quoted(found)))
}

/// The text that is not parsed yet. A token is a part of it: a symbol, a word, or at the
/// end the empty text.
struct Parser<'t> {
    rest: &'t str,
    values: usize,
}

/// All symbols; one that begins with another comes first.
const SYMBOLS: [&str; 9] = ["==", "=", "!=", "!", "(", ")", ",", ">", "<"];
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_special(letter: char) -> bool {
    "=!(),><".contains(letter)
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(is_special)
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    if text.len() > MAX_BYTES {
        return Err(invalid(format!(
            "longer than {MAX_BYTES} bytes: ask with fewer requirements"
        )));
    }
    let mut parser = Parser {
        rest: text,
        values: 0,
    };
    let mut requirements = Vec::new();
    if parser.peek().is_empty() {
        return Ok(requirements);
    }
    loop {
        if requirements.len() == MAX_REQUIREMENTS {
            return Err(invalid(format!(
                "more than {MAX_REQUIREMENTS} requirements: ask with fewer"
            )));
        }
        requirements.push(parser.requirement()?);
        match parser.next() {
            "" => break,
            "," => {}
            other => return Err(expected(other, "',' or end of string")),
        }
    }
    requirements.sort();
    requirements.dedup();
    Ok(requirements)
}

impl<'t> Parser<'t> {
    fn peek(&mut self) -> &'t str {
        self.rest = self.rest.trim_start_matches(SPACES);
        let symbol = SYMBOLS.iter().find(|it| self.rest.starts_with(**it));
        let length = symbol.map_or_else(
            || self.rest.find(|c| is_special(c) || SPACES.contains(&c)),
            |symbol| Some(symbol.len()),
        );
        &self.rest[..length.unwrap_or(self.rest.len())]
    }

    fn next(&mut self) -> &'t str {
        let token = self.peek();
        self.rest = &self.rest[token.len()..];
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut key = self.next();
        let negated = key == "!";
        if negated {
            key = self.next();
        }
        if !is_word(key) {
            return Err(expected(key, "!, identifier, or end of string"));
        }
        check_key(key)?;
        let operator = match self.peek() {
            _ if negated => Operator::DoesNotExist,
            "" | "," => Operator::Exists,
            _ => self.operator()?,
        };
        Ok(Requirement {
            key: key.to_owned(),
            operator,
        })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.next() {
            "=" | "==" => Ok(Operator::Equals(self.value()?.to_owned())),
            "!=" => Ok(Operator::NotEquals(self.value()?.to_owned())),
            ">" => Ok(Operator::GreaterThan(self.bound()?)),
            "<" => Ok(Operator::LessThan(self.bound()?)),
            "in" => Ok(Operator::In(self.value_list()?)),
            "notin" => Ok(Operator::NotIn(self.value_list()?)),
            other => Err(expected(other, "in, notin, =, ==, !=, >, <")),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let text = self.value()?;
        text.parse()
            .map_err(|_| invalid(format!("{} is not an integer", quoted(text))))
    }

    /// `(a,b)`; as upstream, an empty position is the empty value, even as the only one:
    /// `()`.
    fn value_list(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            "(" => {}
            other => return Err(expected(other, "'('")),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?.to_owned());
            match self.next() {
                "," => {}
                ")" => break,
                other => return Err(expected(other, "',' or ')'")),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// A word, or the empty value if there is none.
    fn value(&mut self) -> Result<&'t str, String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(invalid(format!(
                "more than {MAX_VALUES} values: ask with fewer"
            )));
        }
        if !is_word(self.peek()) {
            return Ok("");
        }
        let value = self.next();
        if is_name(value) {
            Ok(value)
        } else {
            Err(invalid(format!(
                "{} is not a label value: at most {MAX_NAME} of A-Z a-z 0-9 - _ ., \
                 beginning and ending with a letter or digit",
                quoted(value)
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
        quoted(key)
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
