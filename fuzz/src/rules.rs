//! Rules of prometheus-adapter: each is used or has a fault, and no name or value of a request
//! changes the form of a query.

use std::collections::BTreeSet;
use std::sync::Arc;

use adapter_rules::labels::is_label;
use adapter_rules::raw::{ResourceRulesEntry, RuleEntry};
use adapter_rules::registry::{Registry, Shape};
use adapter_rules::resource::ResourceRules;
use adapter_rules::rule::Rules;
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::selector::Selector;
use limits::file::yaml;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    rules: Vec<RuleEntry>,
    resource_rules: Option<ResourceRulesEntry>,
}

/// The file may end with a comment that has the name of an object and the value of a label.
pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let Ok((file, _)) = yaml::first_document::<File>(text) else {
        return;
    };
    let request = text
        .rsplit_once("\n# ")
        .and_then(|(_, it)| it.trim_end().split_once(' '));
    let (name, value) = request.unwrap_or(("a", "b"));
    let rules = Rules::resolve("rules", &file.rules);
    for place in (0..file.rules.len()).map(|index| format!("rules[{index}]")) {
        let is_used = rules.usable.iter().any(|rule| rule.place == place);
        let fault = rules
            .faults
            .iter()
            .find(|it| it.key.starts_with(&format!("{place}.")));
        assert!(is_used || fault.is_some(), "{place}");
    }
    for fault in &rules.faults {
        super::check_line(&fault.to_string());
        assert!(fault.line <= text.split('\n').count() as u64, "{fault}");
    }
    let mut registry = Registry::new(kinds());
    let shapes = shapes(text);
    for rule in rules.usable {
        registry.add_custom(&Arc::new(rule), &shapes);
    }
    for custom in registry.custom.values() {
        check_query(name, value, |names, selector| {
            custom.query(Some("ns"), names, selector).ok()
        });
    }
    if let Some(Ok(rules)) = file.resource_rules.map(|it| ResourceRules::resolve(&it)) {
        for rule in [rules.cpu, rules.memory] {
            check_query(name, value, |names, _| rule.of_pods("ns", names).ok());
            check_query(name, value, |names, _| rule.of_nodes(names).ok());
        }
    }
}

/// Compares the query of a request with that of one for the object `a` and the value `b`.
fn check_query(name: &str, value: &str, query: impl Fn(&[&str], &Selector) -> Option<String>) {
    let selector = |value| Selector::parse(&format!("label={value}"));
    let (Ok(plain), Ok(asked)) = (selector("b"), selector(value)) else {
        return;
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let plain = query(&["a"], &plain);
    let asked = query(&[name], &asked);
    if !name.is_empty() && name.bytes().all(is_name) && !value.is_empty() {
        assert_eq!(plain.as_deref().map(form), asked.as_deref().map(form));
    } else if !name.bytes().all(is_name) {
        assert_eq!(asked, None);
    }
}

/// A query without the content of its strings and words.
fn form(promql: &str) -> String {
    let (mut form, mut is_string, mut letters) = (String::new(), false, promql.chars());
    while let Some(letter) = letters.next() {
        let is_word = letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
        match letter {
            '"' => {
                is_string = !is_string;
                form.push('"');
            }
            '\\' if is_string => drop(letters.next()),
            _ if is_string => {}
            _ if is_word && form.ends_with('w') => {}
            _ => form.push(if is_word { 'w' } else { letter }),
        }
    }
    form
}

/// Series with names and labels that the file has.
fn shapes(text: &str) -> Vec<Shape> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: BTreeSet<Arc<str>> = words
        .filter(|it| is_label(it))
        .map(Into::into)
        .take(40)
        .collect();
    let names = words.iter().filter(|it| it.ends_with("_total")).take(3);
    let shape = |name: &Arc<str>| Shape {
        name: Arc::clone(name),
        labels: words.clone(),
    };
    names.map(shape).collect()
}

fn kinds() -> Kinds {
    let kinds = [
        ("", "pods", "pod"),
        ("", "namespaces", "namespace"),
        ("apps", "deployments", "deployment"),
    ];
    let kind = |(group, plural, singular): (&str, &str, &str)| Kind {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: singular.into(),
        short: Vec::new(),
        kind: singular.into(),
        namespaced: singular != "namespace",
        watchable: true,
    };
    Kinds::new(kinds.map(kind).into())
}
