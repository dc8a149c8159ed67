//! Field selectors: select objects by their name and namespace.
//!
//! Grammar: kubernetes/apimachinery `pkg/fields/selector.go`. Names need no escapes, so
//! none are supported.

/// The fields that every kind has; others are refused.
const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// A field selector; all requirements must hold. Empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    is_name: bool,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses the text form. Empty text matches everything.
    ///
    /// # Errors
    /// When it does not follow the grammar, or names another field. The error is a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let terms = text.split(',').filter(|term| !term.is_empty());
        terms.map(requirement).collect::<Result<_, _>>().map(Self)
    }

    /// Whether an object of this name satisfies every requirement; the namespace of a
    /// cluster-scoped object is empty.
    #[must_use]
    pub fn matches(&self, namespace: &str, name: &str) -> bool {
        self.0.iter().all(|it| {
            let value = if it.is_name { name } else { namespace };
            (value == it.value) == it.equal
        })
    }
}

fn requirement(term: &str) -> Result<FieldRequirement, String> {
    let cut = |text: &str| text.chars().take(64).collect::<String>();
    let shape = || {
        format!(
            "invalid field selector {:?}: write metadata.name=NAME",
            cut(term)
        )
    };
    let (field, value) = term.split_once('=').ok_or_else(shape)?;
    let (field, equal) = match field.strip_suffix('!') {
        Some(field) => (field, false),
        None => (field, true),
    };
    // `==` means `=`; `!==` is invalid.
    let value = if equal {
        value.strip_prefix('=').unwrap_or(value)
    } else {
        value
    };
    if value.contains(['=', '\\']) {
        return Err(shape());
    }
    match field {
        NAME | NAMESPACE => Ok(FieldRequirement {
            is_name: field == NAME,
            equal,
            value: value.to_owned(),
        }),
        _ => Err(format!(
            "{:?} is not a known field selector: only {NAME:?}, {NAMESPACE:?}",
            cut(field)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_names_and_namespaces() {
        for (text, chosen) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name=b", false),
            ("metadata.name!=a", false),
            ("metadata.namespace=ns,metadata.name!=b", true),
            ("metadata.namespace!=ns", false),
        ] {
            let selector = FieldSelector::parse(text).unwrap();
            assert_eq!(selector.matches("ns", "a"), chosen, "{text}");
        }
    }

    #[test]
    fn invalid_field_selectors_are_refused() {
        for text in [
            "metadata.name",
            "status.phase=Running",
            "=a",
            "metadata.name!==a",
            "metadata.name=a\\,b",
            "x",
        ] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }
}
