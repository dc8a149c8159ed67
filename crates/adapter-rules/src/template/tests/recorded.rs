//! The output of Go for random templates, recorded with e2e/peer/templates/main.go, which
//! describes how.

use std::collections::BTreeMap;

use crate::query::{QueryTemplate, QueryValues};

#[derive(serde::Deserialize)]
struct Recorded {
    template: String,
    /// The output with each of [`sets`]; empty if Go refuses to parse the template.
    #[serde(default)]
    rendered: Vec<Option<String>>,
}

/// The sets of fields that Go rendered the templates with.
fn sets() -> [QueryValues<'static>; 2] {
    let values = [
        ("namespace", "default"),
        ("pod", "a|b"),
        ("empty", ""),
        ("é", "ü"),
    ];
    let owned = |text: &str| text.to_owned();
    [
        QueryValues {
            series: "http_requests_total",
            matchers: vec![owned(r#"namespace="default""#), owned(r#"pod=~"a|b""#)],
            values: BTreeMap::from(values.map(|(label, value)| (owned(label), owned(value)))),
            group_by: vec![owned("pod"), owned("container")],
        },
        QueryValues::default(),
    ]
}

/// A template may be refused that Go renders: this makes no wrong query. Other bytes would.
#[test]
fn templates_that_render_give_the_same_bytes_as_go() {
    let more = std::env::var("GO_TEMPLATES").map(|path| std::fs::read_to_string(path).unwrap());
    let recorded = more.as_deref().unwrap_or(include_str!("recorded.jsonl"));
    let (mut same, mut other) = (0, Vec::new());
    for line in recorded.lines() {
        let one: Recorded = serde_json::from_str(line).unwrap();
        let Ok(template) = QueryTemplate::parse(&one.template) else {
            continue;
        };
        for (place, fields) in sets().iter().enumerate() {
            let go = one.rendered.get(place).cloned().flatten();
            let here = template.render(|field| fields.print(field));
            match here == go {
                true => same += 1,
                false => other.push((one.template.clone(), here, go)),
            }
        }
    }
    assert_eq!(other, [], "{} render otherwise", other.len());
    assert!(same > 200, "{same} render as Go's");
}
