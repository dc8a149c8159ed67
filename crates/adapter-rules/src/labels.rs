//! Which label of a series names which object: `resources`. Upstream: prometheus-adapter
//! `pkg/naming/resource_converter.go` and `lbl_res.go`.

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;

use super::naming::regex;
use super::template::{Field, Part, Template};
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::promql::quote_regex;

/// `resources.overrides` and `resources.template`, resolved.
#[derive(Clone, Debug, Default)]
pub struct ResourceLabels {
    /// By label.
    overrides: Vec<Override>,
    template: Option<LabelTemplate>,
}

/// An entry of `resources.overrides`.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) label: Arc<str>,
    pub(super) group: String,
    pub(super) resource: String,
}

/// `resources.template`, and its inverse.
#[derive(Clone, Debug)]
struct LabelTemplate {
    template: Template<LabelField>,
    pattern: Regex,
}

/// What `resources.template` may use.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelField {
    Group,
    Resource,
}

impl Field for LabelField {
    const ACTIONS: &'static str = "<<.Resource>> or <<.Group>>";

    fn parse(action: &str) -> Option<Self> {
        match action {
            ".Group" => Some(Self::Group),
            ".Resource" => Some(Self::Resource),
            _ => None,
        }
    }
}

impl ResourceLabels {
    pub(super) fn new(overrides: Vec<Override>, template: Option<&str>) -> Result<Self, String> {
        let template = template.map(LabelTemplate::new).transpose()?;
        Ok(Self {
            overrides,
            template,
        })
    }

    /// The kinds in overrides that the cluster does not have, as the file spells them.
    pub fn unknown<'a>(&'a self, kinds: &'a Kinds) -> impl Iterator<Item = String> + 'a {
        self.overrides
            .iter()
            .filter(|it| kinds.find(&it.group, &it.resource).is_none())
            .map(|it| match it.group.as_str() {
                "" => it.resource.clone(),
                group => format!("{}.{group}", it.resource),
            })
    }

    /// The kind of object that a label names.
    pub(crate) fn kind<'a>(&self, label: &str, kinds: &'a Kinds) -> Option<&'a Kind> {
        if let Some(it) = self.overrides.iter().find(|it| *it.label == *label) {
            return kinds.find(&it.group, &it.resource);
        }
        let pattern = &self.template.as_ref()?.pattern;
        let captures = pattern.captures(label)?;
        let resource = captures.name("resource")?.as_str();
        let group = captures.name("group").map_or("", |group| group.as_str());
        kinds.find(group, resource)
    }

    /// The label that names objects of a kind. If several overrides name the kind, the first
    /// whose label is in `on`, the labels of the series, applies, or else the first by name.
    pub(crate) fn label(
        &self,
        kind: &Kind,
        kinds: &Kinds,
        on: &BTreeSet<Arc<str>>,
    ) -> Option<Arc<str>> {
        let mut named = self
            .overrides
            .iter()
            .filter(|it| kinds.find(&it.group, &it.resource) == Some(kind));
        let first = named.clone().next();
        if let Some(it) = named.find(|it| on.contains(&it.label)).or(first) {
            return Some(Arc::clone(&it.label));
        }
        let template = &self.template.as_ref()?.template;
        let label = template.render(|field| match field {
            LabelField::Group => kind.group.to_string(),
            LabelField::Resource => kind.singular.to_string(),
        })?;
        is_label(&label).then(|| label.into())
    }
}

impl LabelTemplate {
    fn new(text: &str) -> Result<Self, String> {
        let template = Template::<LabelField>::parse(text)
            .map_err(|error| format!("{text:?} is no template: {error}"))?;
        let parts = &template.parts;
        if !parts.contains(&Part::Field(LabelField::Resource)) {
            return Err(format!(
                "{text:?} names no kind: write <<.Resource>> where the kind stands in the label"
            ));
        }
        let patterns = parts.iter().map(|part| match part {
            Part::Literal(literal) => quote_regex(literal),
            Part::Field(LabelField::Group) => "(?P<group>.*)".to_owned(),
            Part::Field(LabelField::Resource) => "(?P<resource>.+?)".to_owned(),
        });
        let pattern: String = patterns.collect();
        let pattern = regex(&format!("^{pattern}$"))?;
        Ok(Self { template, pattern })
    }
}

/// Whether a text is a label's name: `[a-zA-Z_][a-zA-Z0-9_]*`.
pub fn is_label(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
