//! The output of Go for random templates, recorded with e2e/peer/templates/main.go, which
//! describes how.

use gotmpl::Value;

use super::super::Template;
use super::fields;

#[derive(serde::Deserialize)]
struct Recorded {
    template: String,
    /// The output with each of [`sets`]; empty if Go refuses to parse the template.
    #[serde(default)]
    rendered: Vec<Option<String>>,
}

/// The sets of fields that Go rendered the templates with.
fn sets() -> [Value; 2] {
    let groups: &[&str] = &["pod", "container"];
    let values = [
        ("namespace", "default"),
        ("pod", "a|b"),
        ("empty", ""),
        ("é", "ü"),
    ];
    [
        fields(
            r#"namespace="default",pod=~"a|b""#,
            &values,
            "http_requests_total",
            groups,
        ),
        fields("", &[], "", &[]),
    ]
}

fn rendered(template: &str, fields: &Value) -> Option<String> {
    let template = Template::parse(template, fields).ok()?;
    template.render(fields).ok()
}

/// A template may be refused that Go renders: this makes no wrong query. Other bytes would.
#[test]
fn templates_that_render_give_the_same_bytes_as_go() {
    let more = std::env::var("GO_TEMPLATES").map(|path| std::fs::read_to_string(path).unwrap());
    let recorded = more.as_deref().unwrap_or(include_str!("recorded.jsonl"));
    let (mut same, mut refused, mut other) = (0, 0, Vec::new());
    for line in recorded.lines() {
        let one: Recorded = serde_json::from_str(line).unwrap();
        for (place, fields) in sets().iter().enumerate() {
            let go = one.rendered.get(place).cloned().flatten();
            match (rendered(&one.template, fields), go) {
                (None, None) => {}
                (None, Some(_)) => refused += 1,
                (Some(here), Some(go)) if here == go => same += 1,
                (Some(here), go) => other.push((one.template.clone(), here, go)),
            }
        }
    }
    assert!(
        other.is_empty(),
        "{} render otherwise: {other:#?}",
        other.len()
    );
    assert!(
        same > refused,
        "{same} render as Go's, {refused} are refused"
    );
}
