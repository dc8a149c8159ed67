//! Evaluates a requirement of a metric selector for a label.

use apimachinery::selector::{MAX_NAME, Operator, Requirement};

/// Whether a label value satisfies a requirement. Selector values cannot contain spaces,
/// but GPU models do (`NVIDIA H100 80GB HBM3`). A value therefore also matches in the form
/// of node labels, with `-` or `_` for each character that is invalid in a selector.
pub(super) fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let reads_as_one_of =
        |wanted: &[String]| value.is_some_and(|value| reads_as_one_of(value, wanted));
    match &requirement.operator {
        Operator::Equals(wanted) => reads_as_one_of(std::slice::from_ref(wanted)),
        Operator::NotEquals(unwanted) => !reads_as_one_of(std::slice::from_ref(unwanted)),
        Operator::In(wanted) => reads_as_one_of(wanted),
        Operator::NotIn(unwanted) => !reads_as_one_of(unwanted),
        Operator::Exists
        | Operator::DoesNotExist
        | Operator::GreaterThan(_)
        | Operator::LessThan(_) => requirement.holds(value),
    }
}

/// Whether any form of a value is one of these values, which are sorted.
fn reads_as_one_of(value: &str, wanted: &[String]) -> bool {
    let is_wanted = |form: &[u8]| {
        wanted
            .binary_search_by(|wanted| wanted.as_bytes().cmp(form))
            .is_ok()
    };
    is_wanted(value.as_bytes())
        || [b'-', b'_'].into_iter().any(|stand_in| {
            let mut form = [0; MAX_NAME];
            spell(value, stand_in, &mut form).is_some_and(is_wanted)
        })
}

/// A value with `stand_in` for each character that is invalid in a selector. `None`: it has
/// no such character, or is longer than any selector value.
pub(super) fn spell<'f>(
    value: &str,
    stand_in: u8,
    form: &'f mut [u8; MAX_NAME],
) -> Option<&'f [u8]> {
    let (mut length, mut differs) = (0, false);
    for letter in value.chars() {
        let plain = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        differs |= !plain;
        let byte = u8::try_from(letter).ok().filter(|_| plain);
        *form.get_mut(length)? = byte.unwrap_or(stand_in);
        length += 1;
    }
    form.get(..length).filter(|_| differs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::selector::Selector;

    fn admits(text: &str, value: Option<&str>) -> bool {
        let selector = Selector::parse(text).unwrap();
        holds(&selector.requirements()[0], value)
    }

    #[test]
    fn a_value_matches_in_each_form_that_a_selector_can_have() {
        let h100 = Some("NVIDIA H100 80GB HBM3");
        for wanted in ["NVIDIA-H100-80GB-HBM3", "NVIDIA_H100_80GB_HBM3"] {
            assert!(admits(&format!("model={wanted}"), h100));
            assert!(admits(&format!("model in (A100,{wanted},Z)"), h100));
            assert!(!admits(&format!("model!={wanted}"), h100));
            assert!(!admits(&format!("model notin (A100,{wanted},Z)"), h100));
        }
        let long = "a b".repeat(100);
        for (selector, value, admitted) in [
            ("model=NVIDIA-H100_80GB-HBM3", h100, false),
            ("model=NVIDIA-H100", h100, false),
            ("model!=NVIDIA-H100", h100, true),
            ("model=caf-s", Some("cafés"), true),
            ("model=a-b_c.d", Some("a-b_c.d"), true),
            ("model=x", None, false),
            ("model in (x,y)", None, false),
            ("model!=x", None, true),
            ("model notin (x)", None, true),
            ("!model", None, true),
            ("model", None, false),
            // A form contains no sign, so it is not a number.
            ("gpu<0", Some("+5"), false),
            ("gpu>4", Some("5"), true),
            // Longer than any value of a selector.
            ("model=x", Some(&*long), false),
            ("model!=x", Some(&*long), true),
        ] {
            assert_eq!(admits(selector, value), admitted, "{selector}: {value:?}");
        }
    }
}
