//! Faults of a rule's queries that need no store: what is left when the template is filled in
//! is checked for its brackets, quotes and commas.

/// Fills in a template for a request with this list of matchers.
fn filled(template: &str, matchers: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("<<") {
        let (action, behind) = after.split_once(">>").unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(match action.trim() {
            ".LabelMatchers" => matchers,
            ".Series" => "series",
            _ => "label",
        });
        rest = behind;
    }
    text + rest
}

/// The fault of a query's template, with the request that shows it. `always_matches`: each
/// request has a matcher.
pub(super) fn fault_of_template(template: &str, always_matches: bool) -> Option<String> {
    if let Some(fault) = fault(&filled(template, r#"namespace="a""#)) {
        return Some(fault);
    }
    let fault = fault(&filled(template, "")).filter(|_| !always_matches)?;
    Some(format!(
        "{fault} when a request has no selector, because <<.LabelMatchers>> is empty then: put it last"
    ))
}

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
