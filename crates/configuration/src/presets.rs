//! `presets`: rules for the metrics of inference servers, built into the program.

use limits::file::yaml;

use adapter_rules::raw::RuleEntry;
use adapter_rules::rule::Rules;
use apimachinery::promql::equals;

use super::problem::Problem;
use super::value::{Choice, Words};

/// An inference server with built-in rules. docs/presets.md lists their metrics, and the
/// sources of their series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// NVIDIA's Triton, with or without the TensorRT-LLM backend.
    Triton,
    /// The endpoint picker of an `InferencePool`.
    EndpointPicker,
}

impl Choice for Preset {
    const WORDS: Words<Self> = &[
        ("vllm", Self::Vllm),
        ("sglang", Self::Sglang),
        ("triton", Self::Triton),
        ("endpoint-picker", Self::EndpointPicker),
    ];
}

impl Preset {
    const fn text(self) -> &'static str {
        match self {
            Self::Vllm => include_str!("presets/vllm.yaml"),
            Self::Sglang => include_str!("presets/sglang.yaml"),
            Self::Triton => include_str!("presets/triton.yaml"),
            Self::EndpointPicker => include_str!("presets/endpoint-picker.yaml"),
        }
    }

    /// The rules of the preset for series with these labels. The place of a rule is
    /// `presets.vllm[0]`.
    pub(super) fn rules(self, labels: &[(String, String)]) -> Result<Rules, Problem> {
        let matchers = labels.iter().map(|(label, value)| equals(label, value));
        let matchers: Vec<String> = matchers.collect();
        let (entries, _) = yaml::first_document::<Vec<RuleEntry>>(self.text())?;
        let mut rules = Rules::resolve(&format!("presets.{}", self.word()), &entries);
        for rule in &mut rules.usable {
            rule.matchers.clone_from(&matchers);
        }
        Ok(rules)
    }
}
