//! The functions of Go's templates that rules can use.

use super::Value;
use apimachinery::promql::quote;

/// A function by name. The evaluator handles `and` and `or`, which skip the rest of their
/// arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    And,
    Or,
    Not,
    Len,
    Index,
    Slice,
    Print,
    Printf,
    Println,
    UrlQuery,
    Compare(Comparison),
}

/// `eq`, `ne`, `lt`, `le`, `gt`, `ge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            "len" => Self::Len,
            "index" => Self::Index,
            "slice" => Self::Slice,
            "print" => Self::Print,
            "printf" => Self::Printf,
            "println" => Self::Println,
            "urlquery" => Self::UrlQuery,
            "eq" => Self::Compare(Comparison::Eq),
            "ne" => Self::Compare(Comparison::Ne),
            "lt" => Self::Compare(Comparison::Lt),
            "le" => Self::Compare(Comparison::Le),
            "gt" => Self::Compare(Comparison::Gt),
            "ge" => Self::Compare(Comparison::Ge),
            _ => return None,
        })
    }

    /// The function's result for its arguments.
    pub(super) fn call(self, arguments: &[Value]) -> Result<Value, String> {
        if let Self::Print | Self::Println | Self::Printf | Self::UrlQuery = self {
            // Go writes <nil> for the one, the fields in their order for the other.
            let unprintable = |value: &&Value| matches!(value, Value::Missing | Value::Top(_));
            if let Some(value) = arguments.iter().find(unprintable) {
                return Err(format!("print of {}", value.kind()));
            }
        }
        match (self, arguments) {
            (Self::And, [.., last]) | (Self::Or, [.., last]) => Ok(last.clone()),
            (Self::Not, [value]) => Ok(Value::Bool(!value.is_true())),
            (Self::Len, [value]) => len(value),
            (Self::Index, [value, keys @ ..]) => index(value, keys),
            (Self::Slice, [value, bounds @ ..]) => slice(value, bounds),
            (Self::Print, _) => Ok(Value::Text(print(arguments))),
            (Self::Println, _) => {
                let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                Ok(Value::Text(words.join(" ") + "\n"))
            }
            (Self::Printf, [Value::Text(format), rest @ ..]) => {
                printf(format, rest).map(Value::Text)
            }
            (Self::UrlQuery, _) => Ok(Value::Text(url_query(&print(arguments)))),
            (Self::Compare(comparison), [first, rest @ ..]) if !rest.is_empty() => {
                compare(comparison, first, rest).map(Value::Bool)
            }
            _ => Err(format!("{self:?} cannot take these arguments").to_lowercase()),
        }
    }
}

fn len(value: &Value) -> Result<Value, String> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("len of {}", other.kind())),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// A map's missing key is the empty text, as the zero value of Go's maps.
fn index(value: &Value, keys: &[Value]) -> Result<Value, String> {
    match (value, keys) {
        (value, []) => Ok(value.clone()),
        (Value::Map(map), [Value::Text(key)]) => {
            Ok(Value::Text(map.get(key).cloned().unwrap_or_default()))
        }
        (Value::List(list), [Value::Int(place)]) => usize::try_from(*place)
            .ok()
            .and_then(|place| list.get(place))
            .map(|text| Value::Text(text.clone()))
            .ok_or_else(|| format!("index out of range: {place}")),
        (Value::Text(text), [Value::Int(place)]) => usize::try_from(*place)
            .ok()
            .and_then(|place| text.as_bytes().get(place))
            .map(|byte| Value::Int(i64::from(*byte)))
            .ok_or_else(|| format!("index out of range: {place}")),
        (value, _) => Err(format!("index of {} by these keys", value.kind())),
    }
}

fn slice(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let bound = |place: usize, default: usize| match bounds.get(place) {
        None => Ok(default),
        Some(Value::Int(bound)) => {
            usize::try_from(*bound).map_err(|_| format!("slice out of range: {bound}"))
        }
        Some(other) => Err(format!("slice by {}", other.kind())),
    };
    let cut = |length: usize| -> Result<(usize, usize), String> {
        let (from, to) = (bound(0, 0)?, bound(1, length)?);
        if bounds.len() > 2 || from > to || to > length {
            return Err(format!("slice out of range: {from} to {to} of {length}"));
        }
        Ok((from, to))
    };
    match value {
        Value::Text(text) => {
            let (from, to) = cut(text.len())?;
            text.get(from..to)
                .map(|part| Value::Text(part.to_owned()))
                .ok_or_else(|| "slice within a character".to_owned())
        }
        Value::List(list) => {
            let (from, to) = cut(list.len())?;
            Ok(Value::List(list.get(from..to).unwrap_or_default().to_vec()))
        }
        other => Err(format!("slice of {}", other.kind())),
    }
}

/// Go's `Sprint`: a space between two operands when neither is text.
fn print(arguments: &[Value]) -> String {
    let mut out = String::new();
    let mut before: Option<&Value> = None;
    for argument in arguments {
        if before.is_some_and(|before| !is_text(before) && !is_text(argument)) {
            out.push(' ');
        }
        out.push_str(&argument.to_string());
        before = Some(argument);
    }
    out
}

const fn is_text(value: &Value) -> bool {
    matches!(value, Value::Text(_))
}

/// `%s`, `%v`, `%d`, `%q`, `%%`.
fn printf(format: &str, arguments: &[Value]) -> Result<String, String> {
    let mut out = String::new();
    let mut arguments = arguments.iter();
    let mut chars = format.chars();
    while let Some(next) = chars.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        let verb = chars.next();
        if verb == Some('%') {
            out.push('%');
            continue;
        }
        let argument = arguments
            .next()
            .ok_or("printf has more verbs than arguments")?;
        match (verb, argument) {
            (Some('v'), value) => out.push_str(&value.to_string()),
            (Some('s'), Value::Int(_) | Value::Bool(_)) => {
                return Err(format!("%s of {}: write %v", argument.kind()));
            }
            (Some('s'), value) => out.push_str(&value.to_string()),
            (Some('d'), Value::Int(number)) => out.push_str(&number.to_string()),
            (Some('q'), Value::Text(text)) => out.push_str(&quote(text)),
            _ => {
                let verb = verb.map_or_else(String::new, String::from);
                return Err(format!(
                    "%{verb} of {} is not known: write %s, %q, %d, %v or %%",
                    argument.kind()
                ));
            }
        }
    }
    match arguments.next() {
        None => Ok(out),
        Some(_) => Err("printf has more arguments than verbs".to_owned()),
    }
}

/// Go's `url.QueryEscape`.
fn url_query(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            _ if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn compare(comparison: Comparison, first: &Value, rest: &[Value]) -> Result<bool, String> {
    let order = |other: &Value| match (first, other) {
        (Value::Int(left), Value::Int(right)) => Ok(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Ok(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right))
            if matches!(comparison, Comparison::Eq | Comparison::Ne) =>
        {
            Ok(left.cmp(right))
        }
        (left, right) => Err(format!("{} compared with {}", left.kind(), right.kind())),
    };
    if comparison == Comparison::Eq {
        // Any of several.
        return rest
            .iter()
            .try_fold(false, |found, other| Ok(found || order(other)?.is_eq()));
    }
    let [other] = rest else {
        return Err("only eq compares with several values".to_owned());
    };
    let order = order(other)?;
    Ok(match comparison {
        Comparison::Eq => order.is_eq(),
        Comparison::Ne => order.is_ne(),
        Comparison::Lt => order.is_lt(),
        Comparison::Le => order.is_le(),
        Comparison::Gt => order.is_gt(),
        Comparison::Ge => order.is_ge(),
    })
}
