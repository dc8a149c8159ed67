//! The actions that a template may have, and their nesting.
//!
//! gotmpl treats a surplus `end` as the end of the text, and the end of the text as each
//! missing `end`. It requires no spaces between words, accepts other numbers and escapes
//! than Go, and trims all Unicode white space. This check refuses all of these.

use std::sync::LazyLock;

use regex::Regex;

use super::TemplateError;

pub(super) const OPEN: &str = "<<";
pub(super) const CLOSE: &str = ">>";

/// The deepest nesting: parsing and rendering are recursive.
const MAX_DEPTH: usize = 50;

const FORM: &str = "this action is not supported: write spaces between the words, strings as \"a\" \
                    and whole numbers";

/// The white space of Go's templates.
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// An action or a comment at the beginning of a text. A capture is its keyword.
static ACTION: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    let space = r"[ \t\r\n]";
    let name = "[A-Za-z_][A-Za-z0-9_]*";
    let path = format!(r"(?:\$(?:{name})?|\.{name})(?:\.{name})*|\.");
    let literal = r#"0|-?[1-9][0-9]{0,8}|"(?:[^"\\\n]|\\["\\nrt])*"|`[^`\r]*`"#;
    let operand = format!(r"(?:\({space}*)*(?:{path}|{name}|{literal})(?:{space}*\))*");
    let pipeline = format!(r"{operand}(?:(?:{space}*\|{space}*|{space}+){operand})*");
    let declared = format!(
        r"(?:(?:\${name}{space}*,{space}*)?\${name}{space}*:={space}*|\${name}{space}+={space}*)?"
    );
    let with_pipeline = format!(r"(if|else{space}+(?:if|with)|with|range){space}+");
    let content = format!(r"(?:(end|else)|(?:{with_pipeline})?{declared}{pipeline})");
    let comment = r"/\*(?:[^*]|\*+[^*/])*\*+/";
    Regex::new(&format!(
        r"^(?:<<{comment}(?:{space}-)?>>|<<-{space}{comment}{space}->>|<<(?:-{space})?{space}*{content}(?:{space}+-|{space}*)>>)"
    ))
});

/// An open `if`, `with` or `range`.
struct Block<'t> {
    keyword: &'t str,
    /// Its place.
    at: usize,
    has_else: bool,
    /// Whether it is an `else if`, which has no `end` of its own.
    is_else_if: bool,
}

/// Checks each action by itself, and that the blocks are closed.
pub(super) fn check(text: &str) -> Result<(), TemplateError> {
    let fault = |at: usize, message: &str| TemplateError::new(text, at, message);
    let strange = |letter: char| letter.is_whitespace() && !SPACES.contains(&letter);
    if let Some(at) = text.find(strange) {
        return Err(fault(at, "an unusual space: write a plain one"));
    }
    let form = ACTION
        .as_ref()
        .map_err(|error| fault(0, &error.to_string()))?;
    let mut open: Vec<Block<'_>> = Vec::new();
    let mut at = 0;
    while let Some((_, rest)) = text.get(at..).and_then(|rest| rest.split_once(OPEN)) {
        at = text.len() - rest.len() - OPEN.len();
        if !rest.contains(CLOSE) {
            return Err(fault(at, "<< without >>: close the action"));
        }
        let Some(action) = text.get(at..).and_then(|rest| form.captures(rest)) else {
            return Err(fault(at, FORM));
        };
        if let Some(keyword) = action.get(1).or(action.get(2)) {
            nest(&mut open, keyword.as_str(), at).map_err(|message| fault(at, message))?;
        }
        at += action.get(0).map_or(OPEN.len(), |all| all.len());
    }
    match open.first() {
        None => Ok(()),
        Some(block) => {
            let message = format!("{} has no end: write <<end>>", block.keyword);
            Err(fault(block.at, &message))
        }
    }
}

/// Opens or closes a block, depending on the keyword.
fn nest<'t>(open: &mut Vec<Block<'t>>, keyword: &'t str, at: usize) -> Result<(), &'static str> {
    let is_else_if = match (keyword, open.last_mut()) {
        ("if" | "with" | "range", _) => false,
        ("end", Some(_)) => {
            while open.pop().is_some_and(|block| block.is_else_if) {}
            return Ok(());
        }
        ("else", Some(block)) if !block.has_else => {
            block.has_else = true;
            return Ok(());
        }
        ("end" | "else", _) => return Err("end or else without if, range or with"),
        (_, Some(block)) if !block.has_else && keyword.ends_with(block.keyword) => true,
        _ => return Err("else if without if, or else with without with"),
    };
    if open.len() == MAX_DEPTH {
        return Err("nested too deeply");
    }
    open.push(Block {
        keyword: keyword.rsplit(SPACES).next().unwrap_or(keyword),
        at,
        has_else: false,
        is_else_if,
    });
    Ok(())
}
