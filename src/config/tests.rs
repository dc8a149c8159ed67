//! Files that load, and files that say what is wrong with them.

use super::*;
use crate::core::policy::{
    Activity, Condition, DeviceValue, Formula, Idle, Measure, MigWeight, Over, Reducer, Shared,
};
use crate::core::signal::{SignalId, Unit};

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

#[test]
fn a_prometheus_adapter_file_loads_and_says_what_is_not_served() {
    let config = load(ADAPTER);
    assert_eq!(config.warnings.len(), 3);
    assert!(config.warnings[0].starts_with("rules: "));
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
fn every_setting_of_prometheus_arrives() {
    let config = load(
        "prometheus:
  url: https://mimir.example:8443/prometheus
  auth: {basic: {username: reader, passwordFile: /etc/password}}
  headers: {X-Scope-OrgID: tenant|other}
  tls: {caFile: /ca.pem, certFile: /cert.pem, keyFile: /key.pem}
  verb: post
  timeout: 3s
  maxBodyBytes: 1000000
  matchers: {cluster: east-1}
",
    );
    let settings = config.prometheus.unwrap();
    assert_eq!(
        settings.url.as_str(),
        "https://mimir.example:8443/prometheus"
    );
    assert_eq!(
        settings.auth,
        Auth::Basic {
            username: "reader".into(),
            password: Password::File("/etc/password".into())
        }
    );
    assert_eq!(settings.headers["x-scope-orgid"], "tenant|other");
    assert_eq!(settings.tls.ca_file, Some("/ca.pem".into()));
    assert_eq!(settings.tls.client.unwrap().key_file, Path::new("/key.pem"));
    assert_eq!(settings.verb, Verb::Post);
    assert_eq!(settings.timeout, Duration::from_secs(3));
    assert_eq!(settings.max_body_bytes, 1_000_000);
    assert_eq!(
        settings.matchers,
        [("cluster".to_owned(), "east-1".to_owned())]
    );
}

#[test]
fn a_flag_wins_over_the_file_and_keeps_its_other_settings() {
    let flags = Flags {
        prometheus_url: Some(parse_url("http://flag:9090").unwrap()),
        ..Flags::default()
    };
    let text = "prometheus: {url: http://file:9090, timeout: 3s}";
    let settings = Config::from_yaml("f", text, &flags)
        .unwrap()
        .prometheus
        .unwrap();
    assert_eq!(settings.url.as_str(), "http://flag:9090/");
    assert_eq!(settings.timeout, Duration::from_secs(3));
    assert!(
        Config::from_yaml("f", "", &flags)
            .unwrap()
            .prometheus
            .is_some()
    );
}

#[test]
fn credentials_in_an_address_are_never_printed() {
    let settings = PrometheusSettings::new(parse_url("http://me:p%26%3Dw@host/x#y").unwrap());
    assert_eq!(settings.url.as_str(), "http://host/x");
    let Auth::Basic {
        username,
        password: Password::Inline(secret),
    } = &settings.auth
    else {
        panic!("{:?}", settings.auth);
    };
    assert_eq!((username.as_str(), secret.0.as_str()), ("me", "p&=w"));
    assert!(!format!("{settings:?}").contains("p&=w"));
    let error = parse_url("ftp://me:hunter2@host").unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn every_setting_of_gpu_arrives() {
    let config = load(
        "gpu:
  window: 2m
  maxWindow: 10m
  step: 15s
  poll: 5s
  average: sample-weighted
  active: {all: [{signal: dram_active, above: 0.02}, allocated, {signal: memory_used}]}
  idle: omit
  hold: 30s
  minCoverage: 0.75
  minSamples: 3
  freshness: 45s
  scrapeInterval: 15s
  exporterInterval: auto
  percentAsRatio: false
  migWeight: slices
  shared: split
  exporterContainers: [gpu-agent]
  exporterNamespaces: [monitoring]
",
    );
    let secs = |n| Some(Duration::from_secs(n));
    assert_eq!(
        config.policy,
        Policy {
            window: secs(120),
            max_window: Duration::from_secs(600),
            step: secs(15),
            formula: Formula::SampleWeighted,
            activity: Activity::All(vec![
                Condition::Above(DeviceValue::Signal(SignalId::DRAM_ACTIVE), 0.02),
                Condition::Allocated,
                Condition::Above(DeviceValue::MemoryUsed, 0.0),
            ]),
            idle: Idle::Omit,
            hold: Duration::from_secs(30),
            min_coverage: 0.75,
            min_samples: 3,
            freshness: secs(45),
            scrape_interval: secs(15),
            exporter_interval: None,
            percent_as_ratio: Some(false),
            mig_weight: MigWeight::Slices,
            shared: Shared::Split,
        }
    );
    assert_eq!(config.poll, secs(5));
    assert!(
        config
            .exporters
            .containers
            .contains(&"gpu-agent".to_owned())
    );
    assert!(
        config
            .exporters
            .namespaces
            .contains(&"monitoring".to_owned())
    );
}

#[test]
fn a_long_window_raises_the_longest_one() {
    assert_eq!(
        load("gpu: {window: 10m}").policy.max_window,
        Duration::from_secs(600)
    );
    assert_eq!(
        load("gpu: {window: 30s}").policy.max_window,
        Duration::from_secs(300)
    );
}

#[test]
fn configured_metrics_share_signals_and_new_fields_follow_the_built_in_ones() {
    let config = load(
        "gpu:
  metrics:
  - {name: gpu_temp, field: DCGM_FI_DEV_GPU_TEMP, aliases: [dcgm_gpu_temp], reducer: max, over: all}
  - {name: gpu_temp_p95, field: dcgm_fi_dev_gpu_temp, reducer: p95, over: held}
  - {name: tensor, field: DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, unit: ratio}
  - {name: power_max, field: DCGM_FI_DEV_POWER_USAGE, aliases: [my.power], reducer: max}
",
    );
    assert_eq!(config.signals.len(), 10);
    let temp = &config.signals[8];
    assert_eq!(
        (temp.id, temp.unit),
        (SignalId::FIRST_CONFIGURED, Unit::Plain)
    );
    assert_eq!(temp.wire_names, ["DCGM_FI_DEV_GPU_TEMP", "dcgm_gpu_temp"]);
    assert_eq!(config.signals[9].unit, Unit::Ratio);
    assert!(
        config.signals[7]
            .wire_names
            .contains(&"my.power".to_owned())
    );
    let measure = |id, reducer, over| Measure::Devices {
        value: DeviceValue::Signal(id),
        reducer,
        over,
    };
    let measures: Vec<_> = config.metrics.iter().map(|m| m.measure).collect();
    assert_eq!(
        measures,
        [
            measure(SignalId(8), Reducer::Max, Over::All),
            measure(SignalId(8), Reducer::Quantile(0.95), Over::Held),
            measure(SignalId(9), Reducer::Mean, Over::Active),
            measure(SignalId::POWER_USAGE, Reducer::Max, Over::Active),
        ]
    );
}

#[test]
fn a_wrong_value_is_shown_with_its_line_and_the_remedy() {
    assert_eq!(
        error("gpu:\n  idle: zero\n  window: 60\n"),
        r#"config.yaml:3:11: gpu.window: "60" is not a duration: write a number and a unit, such as 30s, 5m or 1h30m
  |
3 |   window: 60
  |           ^"#
    );
    assert_eq!(
        error("prometheus:\n  url: localhost:9090\n"),
        r#"config.yaml:2:8: prometheus.url: "localhost:9090" is no URL: write http://host:port
  |
2 |   url: localhost:9090
  |        ^"#
    );
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_keys_there_are() {
    let text = error("gpu:\n  idle: zero\n  widnow: 1m\n");
    assert!(text.starts_with("config.yaml: "), "{text}");
    assert!(
        text.contains("widnow") && text.contains("3 |   widnow: 1m"),
        "{text}"
    );
    let text = error("gpus: {}\n");
    assert!(text.contains("gpus"), "{text}");
}

#[test]
fn wrong_shapes_and_broken_yaml_are_shown_with_their_line() {
    for (text, line) in [
        ("gpu: [1]\n", "1 | gpu: [1]"),
        ("gpu:\n  metrics: 3\n", "2 |   metrics: 3"),
        ("gpu: {window: 1m\n", "1 | gpu: {window: 1m"),
        ("gpu: {window: [1m]}\n", "1 | gpu: {window: [1m]}"),
        ("gpu:\n  window: 1m\n  window: 2m\n", "3 |   window: 2m"),
        ("gpu:\n  metrics:\n  - {field: X}\n", "3 |   - {field: X}"),
    ] {
        let error = error(text);
        assert!(error.starts_with("config.yaml: "), "{error}");
        assert!(error.contains(line), "{error}");
    }
}

#[test]
fn each_wrong_value_names_its_key_what_was_found_and_what_to_write() {
    for (text, message) in [
        (
            "prometheus: {timeout: 1s}",
            "prometheus.url: is missing: write http://host:port, or give --prometheus-url",
        ),
        (
            "prometheus: {url: 'http://h', verb: PUT}",
            r#"prometheus.verb: "PUT" is not known: write GET or POST"#,
        ),
        (
            "prometheus: {url: 'http://h', timeout: 0s}",
            "prometheus.timeout: is zero: write a duration such as 30s",
        ),
        (
            "prometheus: {url: 'http://h', maxBodyBytes: 512Mi}",
            r#"prometheus.maxBodyBytes: "512Mi" is no count: write a whole number above 0"#,
        ),
        (
            "prometheus: {url: 'http://h', auth: {}}",
            "prometheus.auth: is empty: write bearerTokenFile or basic, or leave it out",
        ),
        (
            "prometheus: {url: 'http://h', auth: {bearerTokenFile: a, basic: {username: a, passwordFile: b}}}",
            "prometheus.auth: has both bearerTokenFile and basic: keep one of them",
        ),
        (
            "prometheus: {url: 'http://h', auth: {basic: {username: 'a:b', passwordFile: b}}}",
            "prometheus.auth.basic.username: holds a colon",
        ),
        (
            "prometheus: {url: 'http://h', tls: {certFile: a}}",
            "prometheus.tls: has certFile without keyFile",
        ),
        (
            "prometheus: {url: 'http://h', tls: {keyFile: a}}",
            "prometheus.tls: has keyFile without certFile",
        ),
        (
            "prometheus: {url: 'http://h', headers: {'a b': c}}",
            r#"prometheus.headers.a b: "a b" is no header name"#,
        ),
        (
            "prometheus: {url: 'http://h', headers: {a: \"b\\n\"}}",
            "prometheus.headers.a: its value is no header value",
        ),
        (
            "prometheus: {url: 'http://h', matchers: {a-b: c}}",
            r#"prometheus.matchers.a-b: "a-b" is no label name"#,
        ),
        (
            "gpu: {step: often}",
            r#"gpu.step: "often" is not a duration"#,
        ),
        (
            "gpu: {window: 1500ms}",
            r#"gpu.window: "1500ms" is no whole number of seconds: write 30s or 1m"#,
        ),
        (
            "gpu: {window: 5m, maxWindow: 1m}",
            "gpu.window: 5m is longer than gpu.maxWindow, 1m: raise that one or lower this one",
        ),
        (
            "gpu: {average: median}",
            r#"gpu.average: "median" is not known: write mean-of-instants or sample-weighted or active-instants or plain"#,
        ),
        (
            "gpu: {idle: one}",
            r#"gpu.idle: "one" is not known: write zero or omit"#,
        ),
        (
            "gpu: {minCoverage: 50}",
            r#"gpu.minCoverage: "50" is no share: write a number above 0, at most 1"#,
        ),
        (
            "gpu: {minSamples: 0}",
            r#"gpu.minSamples: "0" is no count: write a whole number above 0"#,
        ),
        (
            "gpu: {percentAsRatio: maybe}",
            r#"gpu.percentAsRatio: "maybe" is not known: write auto or true or false"#,
        ),
        ("gpu: {active: {}}", "gpu.active: is empty"),
        ("gpu: {active: {any: []}}", "gpu.active: lists no condition"),
        (
            "gpu: {active: {any: [allocated], all: [allocated]}}",
            "gpu.active: has both any and all: keep one of them",
        ),
        (
            "gpu: {active: {any: [allocated, held]}}",
            r#"gpu.active.any[1]: "held" is not known: write allocated or {signal: memory_utilization, above: 0}"#,
        ),
        (
            "gpu: {active: {any: [{signal: power, above: 1}]}}",
            r#"gpu.active.any[0]: signal "power" is not known: write memory_utilization or"#,
        ),
        (
            "gpu: {active: {all: [{signal: memory_used, above: much}]}}",
            r#"gpu.active.all[0]: above: "much" is no number: write one such as 0"#,
        ),
        (
            "gpu: {metrics: [{name: a/b, field: X}]}",
            r#"gpu.metrics[0].name: "a/b" is no metric name"#,
        ),
        (
            "gpu: {metrics: [{name: '9a', field: X}]}",
            r#"gpu.metrics[0].name: "9a" is no metric name"#,
        ),
        (
            "gpu: {metrics: [{name: a, field: X}, {name: A, field: Y}]}",
            r#"gpu.metrics[1].name: "A" is the name of gpu.metrics[0] too"#,
        ),
        (
            "gpu: {metrics: [{name: a, field: ''}]}",
            r#"gpu.metrics[0].field: "" is no series name"#,
        ),
        (
            "gpu: {metrics: [{name: a, field: X, unit: bytes}]}",
            r#"gpu.metrics[0].unit: "bytes" is not known: write percent or"#,
        ),
        (
            "gpu: {metrics: [{name: a, field: DCGM_FI_DEV_FB_USED, unit: percent}]}",
            r#"gpu.metrics[0].unit: "percent" does not fit DCGM_FI_DEV_FB_USED, whose unit is mebibytes: leave the unit out"#,
        ),
        (
            "gpu: {metrics: [{name: a, field: X, reducer: median}]}",
            r#"gpu.metrics[0].reducer: "median" is not known"#,
        ),
        (
            "gpu: {metrics: [{name: a, field: X, over: idle}]}",
            r#"gpu.metrics[0].over: "idle" is not known: write active or held or all"#,
        ),
    ] {
        let error = error(text);
        assert!(error.contains(message), "{text}\n{error}");
        assert!(error.starts_with("config.yaml:"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("/nonexistent/config.yaml"), &Flags::default());
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with("/nonexistent/config.yaml: cannot be read: "),
        "{text}"
    );
}

#[test]
fn durations_out_of_bounds_and_a_name_that_is_taken_are_refused() {
    let refused = |text: &str| {
        let error = Config::from_yaml("config.yaml", text, &Flags::default()).unwrap_err();
        error.to_string()
    };
    let flood = refused("gpu: {poll: 1ms}");
    assert!(
        flood.contains("gpu.poll") && flood.contains("500ms"),
        "{flood}"
    );
    for (key, value) in [
        ("scrapeInterval", "200000000y"),
        ("step", "1ms"),
        ("hold", "3d"),
        ("maxWindow", "52w"),
        ("window", "10y"),
    ] {
        let text = refused(&format!("gpu: {{{key}: {value}}}"));
        let named = text.contains(&format!("gpu.{key}"));
        assert!(named && text.contains("write a duration"), "{text}");
    }
    let taken = refused("gpu: {metrics: [{name: GPU_held_count, field: DCGM_FI_DEV_GPU_TEMP}]}");
    assert!(
        taken.contains("gpu.metrics[0].name") && taken.contains("built-in"),
        "{taken}"
    );
}

#[test]
fn flags_win_over_the_file() {
    let mut headers = HeaderMap::new();
    headers.insert("x-scope-orgid", "b".parse().unwrap());
    let flags = Flags {
        bearer_token_file: Some("/token".into()),
        ca_file: Some("/ca".into()),
        headers,
        verb: Some(Verb::Post),
        ..Flags::default()
    };
    let text = "prometheus: {url: \"http://p:9090\", headers: {X-Scope-OrgID: a, X-Other: c}, \
                auth: {basic: {username: u, passwordFile: /p}}}";
    let config = Config::from_yaml("config.yaml", text, &flags).unwrap();
    let settings = config.prometheus.unwrap();
    assert_eq!(settings.auth, Auth::BearerTokenFile("/token".into()));
    assert_eq!(settings.headers["x-scope-orgid"], "b");
    assert_eq!(settings.headers["x-other"], "c");
    assert_eq!(settings.verb, Verb::Post);
    assert_eq!(settings.tls.ca_file, Some("/ca".into()));
}
