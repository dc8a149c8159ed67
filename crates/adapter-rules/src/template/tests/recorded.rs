//! What Go makes of templates at random, as e2e/peer/templates/main.go recorded
//! it, which says how.

use gotmpl::Value;

use super::super::Template;
use super::fields;

#[derive(serde::Deserialize)]
struct Recorded {
    template: String,
    /// With each of [`sets`]; empty where Go refuses to read the template.
    #[serde(default)]
    rendered: Vec<Option<String>>,
}

/// The fields that Go had.
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

/// A refusal where Go renders makes no wrong query; other bytes do.
#[test]
fn what_renders_has_the_bytes_of_go() {
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
