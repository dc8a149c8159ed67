//! The query for a signal, and its URL. Pure.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use url::Url;

use apimachinery::duration::format_duration;
use apimachinery::promql::{any_of, equals};
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalSpec;

/// A query for the samples of signals.
#[derive(Clone, Copy, Debug)]
pub struct SeriesQuery<'a> {
    /// At least one.
    pub specs: &'a [&'a SignalSpec],
    /// The end of the requested time range.
    pub at: Timestamp,
    /// The length of the requested time range.
    pub range: Duration,
}

/// The place of each signal's names in a list of signals.
pub(crate) fn places(specs: &[&SignalSpec]) -> HashMap<String, usize> {
    let specs = specs.iter().enumerate();
    let names =
        specs.flat_map(|(place, spec)| spellings(spec).into_iter().map(move |it| (it, place)));
    names.collect()
}

/// All spellings of a signal's name, including lower case, as in managed stores.
pub(crate) fn spellings(spec: &SignalSpec) -> BTreeSet<String> {
    let names = spec.wire_names.iter();
    names
        .flat_map(|name| [name.clone(), name.to_ascii_lowercase()])
        .collect()
}

/// `__name__=~"A|B|a|b"`: all spellings of the signals' names at once.
#[must_use]
pub fn any_name(specs: &[&SignalSpec]) -> String {
    let all: BTreeSet<String> = specs.iter().flat_map(|spec| spellings(spec)).collect();
    format!("__name__=~{}", any_of(all))
}

/// `__name__="A"` and so on: each spelling of the signals' names by itself.
pub(crate) fn each_name(specs: &[&SignalSpec]) -> Vec<String> {
    let all = specs.iter().flat_map(|spec| spellings(spec));
    all.map(|name| equals("__name__", &name)).collect()
}

/// The range selector of a query, such as `{__name__=~"A|B",cluster="c"}[30s]`. `name` is
/// the matcher on the metric's name; `matchers` are labels and their exact values.
pub(crate) fn range_selector(
    name: &str,
    matchers: &[(String, String)],
    of: &SeriesQuery<'_>,
) -> String {
    let matchers = matchers.iter().map(|(label, value)| equals(label, value));
    let all: Vec<String> = [name.to_owned()].into_iter().chain(matchers).collect();
    // PromQL refuses an empty range.
    let range = format_duration(of.range.max(Duration::from_millis(1)));
    format!("{{{}}}[{range}]", all.join(","))
}

/// The URL of the endpoint `query`, `query_range` or `series` below an address. A
/// path prefix is kept (Mimir's `/prometheus`), and so are parameters (OpenShift's
/// `?namespace=`).
pub(crate) fn endpoint(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    let path = format!("{}/api/v1/{name}", base.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// The parameters of a query over a time range, including both ends, with one sample per
/// `step`.
#[must_use]
pub fn range_parameters(promql: &str, [start, end]: [Timestamp; 2], step: Duration) -> String {
    form([
        ("query", promql),
        ("start", &start.to_string()),
        ("end", &end.to_string()),
        ("step", &format_duration(step)),
    ])
}

/// The parameters of a query at a time.
#[must_use]
pub fn parameters_at(promql: &str, at: Timestamp) -> String {
    form([("query", promql), ("time", &at.to_string())])
}

/// Parameters, encoded as a form.
pub(crate) fn form<const N: usize>(parameters: [(&str, &str); N]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(parameters)
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_metrics::signal::{SignalId, Unit};

    fn spec(names: &[&str]) -> SignalSpec {
        SignalSpec {
            id: SignalId(0),
            name: "x".into(),
            wire_names: names.iter().map(|&name| name.to_owned()).collect(),
            unit: Unit::Plain,
        }
    }

    #[test]
    fn one_query_selects_all_spellings_and_escapes_names_and_matchers() {
        let spec = spec(&["DCGM_A", "dcgm_a", "dcgm.b+"]);
        let all = SeriesQuery {
            specs: &[&spec],
            at: Timestamp::from_secs(0),
            range: Duration::from_secs(90),
        };
        let name = any_name(all.specs);
        assert_eq!(
            range_selector(&name, &[], &all),
            r#"{__name__=~"DCGM_A|dcgm\\.b\\+|dcgm_a"}[1m30s]"#
        );
        let some = SeriesQuery {
            range: Duration::ZERO,
            ..all
        };
        let matchers = [("cluster".to_owned(), "a\"b\\c\n".to_owned())];
        assert_eq!(
            range_selector("n", &matchers, &some),
            r#"{n,cluster="a\"b\\c\n"}[1ms]"#
        );
    }

    #[test]
    fn the_path_prefix_and_the_parameters_are_kept() {
        for (base, wanted) in [
            ("http://h", "http://h/api/v1/query"),
            ("http://h/", "http://h/api/v1/query"),
            ("http://h/prometheus", "http://h/prometheus/api/v1/query"),
            ("http://h/a/b/", "http://h/a/b/api/v1/query"),
            ("http://h/?n=x", "http://h/api/v1/query?n=x"),
        ] {
            assert_eq!(endpoint(&base.parse().unwrap(), "query").as_str(), wanted);
        }
    }
}
