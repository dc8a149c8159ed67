//! The PromQL of a request.

use std::collections::BTreeSet;

use super::rows;
use crate::query::{QueryRequest, QueryTemplate, Unanswerable, build};
use apimachinery::selector::Selector;

fn query(
    template: &str,
    selector: &str,
    namespace: Option<&str>,
    names: Option<&[&str]>,
    group_by: &[&str],
) -> Result<String, Unanswerable> {
    let template = QueryTemplate::parse(template).expect("a template");
    let selector = Selector::parse(selector).expect("a selector");
    build(
        &template,
        &QueryRequest {
            series: "foo",
            matchers: &[],
            selector: Some(&selector),
            namespace: namespace.map(|namespace| ("namespaces", namespace)),
            objects: names.map(|names| ("resource", names)),
            group_by,
        },
    )
}

#[test]
fn the_tables_of_upstream_give_the_same_queries() {
    for row in rows(include_str!("queries.txt")) {
        let fields: Vec<&str> = row.split(';').map(str::trim).collect();
        let words = |field: &'static str| field.split_whitespace().collect::<Vec<_>>();
        let [template, selector, namespace, names, group_by, expected] = fields[..] else {
            panic!("{row}");
        };
        let (names, group_by) = (words(names), words(group_by));
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        let names = Some(&names[..]).filter(|it| !it.is_empty());
        let query = query(template, selector, namespace, names, &group_by);
        assert_eq!(query.as_deref(), Ok(expected), "{row}");
    }
}

#[test]
fn operators_and_keys_without_a_matcher_are_refused() {
    for selector in ["a>1", "a<1", "example.com/a=b", "a-b=c"] {
        let refused = query("<<.LabelMatchers>>", selector, None, None, &[]);
        assert!(
            matches!(refused, Err(Unanswerable::Selector(_))),
            "{selector}: {refused:?}"
        );
    }
}

/// Statement 92 of docs/protocol.md.
#[test]
fn s092_no_name_changes_a_query() {
    for name in [
        "a\"} or vector(1) #",
        "a|b",
        ".*",
        "a\nb",
        "a\\",
        "",
        "(",
        "a b",
        "é",
        "{a}",
    ] {
        let refused = query("<<.LabelMatchers>>", "", None, Some(&[name]), &[]);
        assert_eq!(refused, Err(Unanswerable::Name(name.to_owned())));
        let refused = query("<<.LabelMatchers>>", "", Some(name), None, &[]);
        assert_eq!(refused, Err(Unanswerable::Name(name.to_owned())));
    }
    let dotted = query("<<.LabelMatchers>>", "", None, Some(&["a.b", "c:d"]), &[]);
    assert_eq!(dotted.as_deref(), Ok(r#"resource=~"a\\.b|c:d""#));
}

#[test]
fn an_empty_query_is_refused() {
    let empty = query("<<index .LabelValuesByName \"nope\">>", "", None, None, &[]);
    let expected = Unanswerable::Rule("the query is empty".to_owned());
    assert_eq!(empty, Err(expected));
}

proptest::proptest! {
    /// For any request, the query has only the matchers that belong to the request.
    #[test]
    fn no_name_or_value_adds_a_matcher(name in "[a-zA-Z0-9.:_-]{1,20}", other in "\\PC{1,20}", value in "[a-z.]{0,9}") {
        let selector = format!("k in ({value},x)");
        if Selector::parse(&selector).is_ok() {
            let query = query("<<.LabelMatchers>>", &selector, Some("n"), Some(&[&name, "y"]), &[])
                .expect("plain names");
            let quotes: BTreeSet<usize> = query.match_indices('"').map(|(at, _)| at).collect();
            proptest::prop_assert_eq!(quotes.len(), 6, "{}", query);
        }
        let asked = query("<<.LabelMatchers>>", "", None, Some(&[&other]), &[]);
        proptest::prop_assert!(asked.is_err() || asked.expect("checked").matches('"').count() == 2);
    }
}
