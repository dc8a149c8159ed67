//! `presets`: rules for the metrics of inference servers, built into the program.

use limits::file::yaml;

use adapter_rules::raw::RuleEntry;
use adapter_rules::rule::Rules;
use apimachinery::promql::equals;

use super::problem::Problem;
use super::value::{Choice, Words};

/// An inference server with built-in rules. docs/rules.md lists their metrics, and the
/// sources of their series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its rules, as entries of `rules`.
    yaml: &'static str,
}

const fn preset(yaml: &'static str) -> Preset {
    Preset { yaml }
}

impl Choice for Preset {
    // By build.rs, of the files of `presets`.
    const WORDS: Words<Self> = include!(concat!(env!("OUT_DIR"), "/presets.rs"));
}

impl Preset {
    /// Its word in `presets`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// The rules of the preset for series with these labels. The place of a rule is
    /// `presets.vllm[0]`.
    pub(super) fn rules(self, labels: &[(String, String)]) -> Result<Rules, Problem> {
        let matchers = labels.iter().map(|(label, value)| equals(label, value));
        let matchers: Vec<String> = matchers.collect();
        let (entries, _) = yaml::first_document::<Vec<RuleEntry>>(self.yaml)?;
        let mut rules = Rules::resolve(&format!("presets.{}", self.word()), &entries);
        for rule in &mut rules.usable {
            rule.matchers.clone_from(&matchers);
            rule.leaves_out_starting = true;
        }
        Ok(rules)
    }
}
