//! Splits a template's text into tokens.

use super::TemplateError;

/// A token and its place, in characters, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Text outside of `<<` and `>>`.
    Text(String),
    /// `<<`.
    Open,
    /// `>>`.
    Close,
    /// A string, without its quotes.
    Quoted(String),
    Number(i64),
    /// `.name`; `.` alone is the empty name.
    Field(String),
    /// `$name`; `$` alone is the empty name.
    Variable(String),
    /// A function or a keyword.
    Word(String),
    Pipe,
    Comma,
    /// `:=`.
    Declare,
    /// `=`.
    Assign,
    LeftParenthesis,
    RightParenthesis,
    /// Separates arguments.
    Space,
}

const OPEN: &str = "<<";
const CLOSE: &str = ">>";

struct Lexer<'a> {
    rest: &'a str,
    /// The number of characters before `rest`.
    passed: usize,
    tokens: Vec<Token>,
}

/// All tokens of a template.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, TemplateError> {
    let mut lexer = Lexer {
        rest: text,
        passed: 0,
        tokens: Vec::new(),
    };
    let mut trim_left = false;
    while let Some(start) = lexer.rest.find(OPEN) {
        let trims_right = lexer.rest[start + OPEN.len()..].starts_with("- ")
            || lexer.rest[start + OPEN.len()..].starts_with("-\n");
        lexer.text(start, trim_left, trims_right);
        trim_left = lexer.action(trims_right)?;
    }
    lexer.text(lexer.rest.len(), trim_left, false);
    Ok(lexer.tokens)
}

impl<'a> Lexer<'a> {
    fn invalid(&self, message: impl Into<String>) -> TemplateError {
        TemplateError {
            at: self.passed + 1,
            message: message.into(),
        }
    }

    /// Takes this many bytes.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.passed += taken.chars().count();
        self.rest = rest;
        taken
    }

    fn push(&mut self, what: What, bytes: usize) {
        let at = self.passed + 1;
        self.take(bytes);
        self.tokens.push(Token { at, what });
    }

    fn text(&mut self, bytes: usize, trim_left: bool, trim_right: bool) {
        let at = self.passed + 1;
        let mut text = self.take(bytes);
        if trim_left {
            text = text.trim_start_matches([' ', '\t', '\r', '\n']);
        }
        if trim_right {
            text = text.trim_end_matches([' ', '\t', '\r', '\n']);
        }
        if !text.is_empty() {
            self.tokens.push(Token {
                at,
                what: What::Text(text.to_owned()),
            });
        }
    }

    /// From `<<` to `>>`; returns whether the text after it is trimmed.
    fn action(&mut self, trims: bool) -> Result<bool, TemplateError> {
        let comment = self.rest[OPEN.len() + usize::from(trims) * 2..].starts_with("/*");
        if comment {
            return self.comment();
        }
        self.push(What::Open, OPEN.len());
        if trims {
            self.take(2);
        }
        loop {
            if self.rest.starts_with(CLOSE) {
                self.push(What::Close, CLOSE.len());
                return Ok(false);
            }
            let unspaced = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let spaces = self.rest.len() - unspaced.len();
            if spaces > 0
                && unspaced
                    .strip_prefix('-')
                    .is_some_and(|rest| rest.starts_with(CLOSE))
            {
                self.take(spaces + 1);
                self.push(What::Close, CLOSE.len());
                return Ok(true);
            }
            if spaces > 0 {
                self.push(What::Space, spaces);
                continue;
            }
            self.token()?;
        }
    }

    fn comment(&mut self) -> Result<bool, TemplateError> {
        let Some(end) = self.rest.find("*/") else {
            return Err(self.invalid("the comment has no end: write */ before >>"));
        };
        self.take(end + 2);
        let trims = self.rest.starts_with(" -") || self.rest.starts_with("\n-");
        if trims {
            self.take(2);
        }
        if !self.rest.starts_with(CLOSE) {
            return Err(self.invalid("a comment fills its action: write >> after */"));
        }
        self.take(CLOSE.len());
        Ok(trims)
    }

    fn token(&mut self) -> Result<(), TemplateError> {
        let Some(first) = self.rest.chars().next() else {
            return Err(self.invalid("<< without >>: close the action"));
        };
        match first {
            '|' => self.push(What::Pipe, 1),
            ',' => self.push(What::Comma, 1),
            '(' => self.push(What::LeftParenthesis, 1),
            ')' => self.push(What::RightParenthesis, 1),
            '=' => self.push(What::Assign, 1),
            ':' if self.rest.starts_with(":=") => self.push(What::Declare, 2),
            '.' => self.name(1, What::Field)?,
            '$' => self.name(1, What::Variable)?,
            '"' => self.quoted()?,
            '`' => {
                let Some(end) = self.rest[1..].find('`') else {
                    return Err(self.invalid("the string has no end: write ` after it"));
                };
                self.push(What::Quoted(self.rest[1..=end].to_owned()), end + 2);
            }
            _ if first.is_ascii_digit() || first == '-' => self.number()?,
            _ if first.is_alphabetic() || first == '_' => self.name(0, What::Word)?,
            _ => {
                let message = format!("{first:?} has no meaning in an action");
                return Err(self.invalid(message));
            }
        }
        Ok(())
    }

    /// A name that begins after `skip` bytes.
    fn name(
        &mut self,
        skip: usize,
        what: impl FnOnce(String) -> What,
    ) -> Result<(), TemplateError> {
        let after = &self.rest[skip..];
        let length = after
            .find(|next: char| !next.is_alphanumeric() && next != '_')
            .unwrap_or(after.len());
        self.push(what(after[..length].to_owned()), skip + length);
        // What Go lets follow a name.
        let ends = [' ', '\t', '\r', '\n', '.', ',', '|', ':', ')', '('];
        if self.rest.is_empty() || self.rest.starts_with(ends) || self.rest.starts_with(CLOSE) {
            return Ok(());
        }
        Err(self.invalid("a space after the name is missing"))
    }

    fn number(&mut self) -> Result<(), TemplateError> {
        let length = self.rest[1..]
            .find(|next: char| !next.is_alphanumeric() && next != '.' && next != '_')
            .map_or(self.rest.len(), |length| length + 1);
        // Go reads 010 as 8.
        let digits = self.rest[..length].trim_start_matches('-');
        let number = self.rest[..length].parse().ok();
        let Some(number) = number.filter(|_| digits == "0" || !digits.starts_with('0')) else {
            let message = format!("{:?} is no whole number", &self.rest[..length]);
            return Err(self.invalid(message));
        };
        self.push(What::Number(number), length);
        Ok(())
    }

    /// A string with Go's escapes.
    fn quoted(&mut self) -> Result<(), TemplateError> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((index, next)) = chars.next() {
            match next {
                '"' => {
                    self.push(What::Quoted(text), index + 1);
                    return Ok(());
                }
                '\n' => break,
                '\\' => match chars.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(same @ ('"' | '\\')) => text.push(same),
                    _ => {
                        return Err(self.invalid(
                            "an escape that is not known: write \\n, \\t, \\r, \\\" or \\\\",
                        ));
                    }
                },
                _ => text.push(next),
            }
        }
        Err(self.invalid("the string has no end: write \" after it"))
    }
}
