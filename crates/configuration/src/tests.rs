//! Valid files.

mod hostile;
mod presets;
mod refused;
mod secrets;
mod transcript;

use gpu_metrics::policy::{DeviceValue, Measure, Over, Reducer};
use gpu_metrics::signal::{SignalId, Unit};
use secrecy::ExposeSecret as _;

use prometheus_source::settings::{Auth, SecretSource, Verb, parse_url};

use super::*;
use std::path::{Path, PathBuf};

fn load(text: &str) -> Config {
    Config::from_yaml("config.yaml", text, &Flags::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn error(text: &str) -> String {
    Config::from_yaml("config.yaml", text, &Flags::default())
        .unwrap_err()
        .to_string()
}

const ADAPTER: &str = r#"
rules:
- seriesQuery: '{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}'
  seriesFilters: []
  resources:
    overrides:
      namespace: {resource: namespace}
      pod:
        resource: pod
  name:
    matches: ^container_(.*)_seconds_total$
    as: ""
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>,container!="POD"}[5m])) by (<<.GroupBy>>)
- {seriesQuery: 'x', resources: {template: "kube_<<.Resource>>"}, metricsQuery: <<.Series>>}
externalRules:
- seriesQuery: '{__name__=~"^.*_queue_(length|size)$"}'
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (name)
resourceRules:
  cpu:
    containerQuery: sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[3m])) by (<<.GroupBy>>)
    resources: {overrides: {instance: {resource: node}}}
    containerLabel: container
  window: 3m
"#;

fn place(source: Option<SecretSource>) -> PathBuf {
    match source {
        Some(SecretSource::File(path)) => path,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_prometheus_adapter_file_loads_without_its_faulty_rules() {
    let config = load(ADAPTER);
    assert_eq!(
        (
            config.rules.usable.len(),
            config.external_rules.usable.len()
        ),
        (2, 1)
    );
    assert!(config.resource_rules.is_none());
    assert_eq!(
        config.warnings,
        [
            "resourceRules.cpu.nodeQuery: is missing: the metric is listed but has no values; \
             write a query such as sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"
        ]
    );
    assert!(config.prometheus.is_none());
    assert_eq!(config.policy, Policy::default());
}

#[test]
fn an_empty_file_is_the_built_in_configuration() {
    for text in ["", "# nothing\n", "{}", "gpu:\nprometheus: \n"] {
        let config = load(text);
        assert_eq!(config.policy, Policy::default(), "{text:?}");
        assert!(config.prometheus.is_none());
        assert!(config.metrics.is_empty() && config.warnings.is_empty());
        assert_eq!(config.signals, fields::built_in());
    }
}

#[test]
fn only_the_first_of_several_documents_is_used_with_a_warning() {
    let first = "gpu: {window: 2m}\n";
    for second in [
        "---\n",
        "---\n# nothing\n",
        "---\ngpu: {window: 3m}\n",
        "---\n- [x\n",
        "...\n---\ngpu: {window: 3m}\n",
    ] {
        let config = load(&format!("# ours\n---\n{first}{second}"));
        assert_eq!(config.policy.window, Some(Duration::from_secs(120)));
        let [warning] = &config.warnings[..] else {
            panic!("{second:?}: {:?}", config.warnings);
        };
        for part in ["only the first is used", "delete it, or move its keys"] {
            assert!(warning.contains(part), "{warning}");
        }
    }
    assert_eq!(load(&format!("---\n{first}...\n")).warnings, [""; 0]);
    // The closing bracket belongs to the first document; it is no second document.
    let error = error(&format!("{first}]\n"));
    assert!(error.contains("config.yaml:2:"), "{error}");
}

#[test]
fn warnings_of_the_chart_are_among_the_warnings() {
    let config = load("warnings: ['values: replicaz is not known']\n");
    assert_eq!(config.warnings, ["values: replicaz is not known"]);
}

/// All of the settings; the values of headers are secret.
fn shown(settings: PrometheusSettings) -> String {
    let PrometheusSettings {
        url,
        auth,
        headers,
        tls,
        verb,
        timeout,
        max_concurrent_queries,
        matchers,
    } = settings;
    let limits = format!("{verb:?} {timeout:?} {max_concurrent_queries} {matchers:?}");
    format!("{url}\n{auth:?}\n{headers:?}\n{tls:?}\n{limits}")
}

#[test]
fn every_setting_arrives() {
    transcript::compare("src/tests/settings.txt", |text| {
        let config = load(text);
        match config.prometheus {
            Some(settings) => shown(settings),
            None => {
                let (poll, starting) = (config.poll, config.include_starting);
                let resources = config.gpu_resources;
                format!("{:?}\n{poll:?} {starting} {resources}", config.policy)
            }
        }
    });
}

#[test]
fn credentials_in_an_address_are_never_printed() {
    let settings = PrometheusSettings::new(parse_url("http://me:p%26%3Dw@host/x#y").unwrap());
    assert_eq!(settings.url.as_str(), "http://host/x");
    let Auth::Basic {
        username,
        password: SecretSource::Inline(secret),
    } = &settings.auth
    else {
        panic!("{:?}", settings.auth);
    };
    assert_eq!((username.as_str(), secret.expose_secret()), ("me", "p&=w"));
    assert!(!format!("{settings:?}").contains("p&=w"));
    let error = parse_url("ftp://me:hunter2@host").unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn configured_metrics_share_signals_and_new_fields_follow_the_built_in_ones() {
    let config = load(
        "gpu:
  metrics:
  - {name: gpu_temp, field: DCGM_FI_DEV_GPU_TEMP, aliases: [dcgm_gpu_temp], reducer: max, over: all}
  - {name: gpu_temp_sum, field: dcgm_fi_dev_gpu_temp, reducer: sum, over: all}
  - {name: tensor, field: DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, unit: ratio}
  - {name: power_max, field: DCGM_FI_DEV_POWER_USAGE, aliases: [my.power], reducer: max}
",
    );
    let [.., temp, tensor] = &config.signals[..] else {
        panic!("{:?}", config.signals);
    };
    assert_eq!(config.signals.len(), fields::built_in().len() + 2);
    assert_eq!(usize::from(temp.id.0), fields::built_in().len());
    assert_eq!((temp.unit, tensor.unit), (Unit::Plain, Unit::Ratio));
    assert_eq!(temp.wire_names, ["DCGM_FI_DEV_GPU_TEMP", "dcgm_gpu_temp"]);
    let power = &config.signals[usize::from(SignalId::POWER_USAGE.0)];
    assert!(power.wire_names.contains(&"my.power".to_owned()));
    let measure = |id, reducer, over| Measure::Devices {
        value: DeviceValue::Signal(id),
        reducer,
        over,
    };
    let measures: Vec<_> = config.metrics.iter().map(|m| m.measure).collect();
    assert_eq!(
        measures,
        [
            measure(temp.id, Reducer::Max, Over::All),
            measure(temp.id, Reducer::Sum, Over::All),
            measure(tensor.id, Reducer::Mean, Over::Active),
            measure(SignalId::POWER_USAGE, Reducer::Max, Over::Active),
        ]
    );
}

/// The server logs the warnings of a configuration when it takes effect.
#[test]
fn skipped_verification_is_one_warning_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = "{current-context: a, contexts: [{name: a, context: {cluster: p, user: u}}],\n\
                clusters: [{name: p, cluster: {insecure-skip-tls-verify: true}}],\n\
                users: [{name: u, user: {}}]}";
    std::fs::write(&kubeconfig, text).unwrap();
    let mut flags = Flags {
        prometheus_auth_config: Some(kubeconfig),
        ..Flags::default()
    };
    let warnings = |flags: &Flags, content: &str| {
        let content = Some(Ok(content.as_bytes().to_vec()));
        flags.resolve(content).unwrap().0.warnings
    };
    assert_eq!(warnings(&flags, ""), [UNVERIFIED]);
    flags.config = Some("config.yaml".into());
    let own = "warnings: [one]";
    assert_eq!(warnings(&flags, own), [UNVERIFIED, "one"]);
    flags.prometheus_ca_file = Some("/ca".into());
    assert_eq!(warnings(&flags, own), ["one"]);
}

#[test]
fn flags_take_precedence_over_the_file() {
    let header = ("x-scope-orgid".parse().unwrap(), "b".parse().unwrap());
    let flags = Flags {
        prometheus_url: Some("http://flag:9090".parse().unwrap()),
        prometheus_token_file: Some("/token".into()),
        prometheus_ca_file: Some("/ca".into()),
        prometheus_header: vec![header],
        prometheus_verb: Some(Verb::Post),
        ..Flags::default()
    };
    let text = "prometheus: {url: \"http://p:9090\", timeout: 3s, headers: {X-Scope-OrgID: a, X-Other: c}, \
                auth: {basic: {username: u, passwordFile: /p}}}";
    let config = Config::from_yaml("config.yaml", text, &flags).unwrap();
    let settings = config.prometheus.unwrap();
    assert_eq!(settings.url.as_str(), "http://flag:9090/");
    assert_eq!(settings.timeout, Duration::from_secs(3));
    assert!(
        matches!(settings.auth, Auth::Bearer(SecretSource::File(file)) if file == Path::new("/token"))
    );
    assert_eq!(settings.headers["x-scope-orgid"], "b");
    assert_eq!(settings.headers["x-other"], "c");
    assert_eq!(settings.verb, Verb::Post);
    assert_eq!(place(settings.tls.ca), Path::new("/ca"));
    assert!(Config::built_in(&flags).prometheus.is_some());
}
