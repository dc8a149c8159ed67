//! Faults of a query that need no store: its brackets, quotes and commas are checked.

/// What Prometheus refuses in a query.
pub(super) fn fault(query: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut is_escaped = false;
    let mut before = ' ';
    for letter in query.chars() {
        if let Some(end) = quote {
            if letter == end && !is_escaped {
                quote = None;
            }
            is_escaped = letter == '\\' && !is_escaped && end != '`';
        } else {
            match letter {
                '"' | '\'' | '`' => quote = Some(letter),
                '(' | '[' | '{' => open.push(letter),
                ')' | ']' | '}' if open.pop() != Some(opening(letter)) => {
                    return Some(format!("a {letter} has no {}", opening(letter)));
                }
                ',' if "{(,".contains(before) => {
                    return Some(format!("a comma follows {before}"));
                }
                _ => {}
            }
        }
        if !letter.is_whitespace() {
            before = letter;
        }
    }
    match (quote, open.pop()) {
        (Some(quote), _) => Some(format!("a {quote} is not closed")),
        (None, open) => open.map(|open| format!("a {open} is not closed")),
    }
}

const fn opening(closing: char) -> char {
    match closing {
        ')' => '(',
        ']' => '[',
        _ => '{',
    }
}
