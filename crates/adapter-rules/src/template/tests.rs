//! The output of Go's text/template for the same templates and fields.

mod recorded;

use crate::query::{QueryRequest, QueryTemplate, Unanswerable, build};
use apimachinery::selector::Selector;

/// The query of a request for the pods `a` and `b`.
fn rendered(text: &str) -> String {
    let template = match QueryTemplate::parse(text) {
        Ok(template) => template,
        Err(error) => return error.to_string(),
    };
    let request = QueryRequest {
        series: "http_requests_total",
        namespace: Some(("namespace", "default")),
        objects: Some(("pod", &["a", "b"])),
        group_by: &["node"],
        ..QueryRequest::default()
    };
    build(&template, &request).unwrap_or_else(|error| format!("{error}"))
}

/// A template, and its output.
const RENDERED: &str = r#"
up => up
sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>) => sum(rate(http_requests_total{namespace="default",pod=~"a|b"}[2m])) by (pod,node)
<< .Series >>>> => http_requests_total>>
<<index  .LabelValuesByName "pod" >>[<<index .LabelValuesByName "nope">>] => a|b[]
{{.Series}} a > b >> c < => {{.Series}} a > b >> c <
"#;

#[test]
fn renders_as_go_does() {
    for row in RENDERED.trim().lines() {
        let (template, expected) = row.split_once(" => ").unwrap();
        assert_eq!(rendered(template), expected, "{template}");
    }
}

#[test]
fn other_actions_are_refused_by_name() {
    let expected = "is not supported: write <<.Series>>, <<.LabelMatchers>>, <<.GroupBy>> or <<index .LabelValuesByName \"LABEL\">>";
    let listed = include_str!("tests/refused.txt").lines().skip(1);
    for action in listed.chain(["<<\u{a0}.Series>>"]) {
        let template = format!("<<.Series>>\né {action}<<.Series>>");
        let refused = rendered(&template);
        assert!(refused.ends_with(expected), "{action}: {refused}");
    }
    let open = "<< without >>: close the action";
    assert_eq!(rendered("a <<.Series> >"), open);
}

#[test]
fn a_query_that_would_become_too_long_is_refused() {
    let template = QueryTemplate::parse(&"<<.LabelMatchers>>".repeat(50_000)).unwrap();
    let value = "v".repeat(60);
    let selector = Selector::parse(&format!("k={value}")).unwrap();
    let request = QueryRequest {
        selector: Some(&selector),
        ..QueryRequest::default()
    };
    let expected = Unanswerable::Rule("the query is too long".to_owned());
    assert_eq!(build(&template, &request), Err(expected));
    let of = |length| QueryTemplate::parse(&"x".repeat(length)).unwrap();
    let is_short = |length| build(&of(length), &QueryRequest::default()).is_ok();
    assert!(is_short(1 << 20) && !is_short((1 << 20) + 1));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[<>.$a-z\"`|:=,() \\-/*éLSG]{0,60}") {
        let _ = rendered(&text);
    }
}
