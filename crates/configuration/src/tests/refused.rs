//! Invalid files, and their errors.

use super::*;

#[test]
fn a_wrong_value_is_shown_with_its_line_and_the_remedy() {
    assert_eq!(
        error("gpu:\n  step: 5s\n  window: 60\n"),
        r#"config.yaml:3:11: gpu.window: "60" is not a duration: write a number and a unit, such as 30s, 5m or 1h30m"#
    );
    assert_eq!(
        error("prometheus:\n  url: localhost:9090\n"),
        "config.yaml:2:8: prometheus.url: is no URL: write http://host:port, of a store or a Service \
         in front of several Prometheus"
    );
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_known_keys() {
    let text = error("gpu:\n  step: 5s\n  widnow: 1m\n");
    let wanted = "config.yaml:3:3: gpu.widnow: unknown field `widnow`, expected one of enabled, ";
    assert!(text.starts_with(wanted), "{text}");
    let text = error("gpus: {}\n");
    assert!(text.contains("gpus"), "{text}");
}

#[test]
fn wrong_shapes_and_broken_yaml_are_shown_with_their_line() {
    for (text, place) in [
        ("gpu: [1]\n", ":1:6: gpu: "),
        ("gpu:\n  metrics: 3\n", ":2:12: gpu.metrics: "),
        ("gpu: {window: 1m\n", ":1:"),
        ("gpu: {window: [1m]}\n", ":1:15: gpu.window: "),
        ("gpu:\n  window: 1m\n  window: 2m\n", ":3:3: gpu: "),
        (
            "gpu:\n  metrics:\n  - {field: X}\n",
            ":3:6: gpu.metrics[0]: ",
        ),
    ] {
        let error = error(text);
        assert!(error.starts_with(&format!("config.yaml{place}")), "{error}");
    }
}

/// Pairs of a file and a part of its error.
const REFUSED: &str = r#"
prometheus: {timeout: 1s}
    prometheus.url: is missing: write http://host:port, or give --prometheus-url
prometheus: {url: 'http://h', verb: PUT}
    prometheus.verb: "PUT" is not known: write GET or POST
prometheus: {url: 'http://h', timeout: 0s}
    prometheus.timeout: "0s" is out of range: write a duration from 1ms to 1d
prometheus: {url: 'http://h', maxConcurrentQueries: many}
    prometheus.maxConcurrentQueries: "many" is no count: write a whole number above 0
prometheus: {url: 'http://h', auth: {}}
    prometheus.auth: is empty: write one key, or leave it out
prometheus: {url: 'http://h', auth: {sigv5: {}}}
    expected one of bearerTokenFile, basic, sigv4, google, azure, oauth2
prometheus: {url: 'http://h', auth: {bearerTokenFile: a, basic: {username: a, passwordFile: b}}}
    has more than one key: keep one of them
prometheus: {url: 'http://h', auth: {azure: {cloud: mars}}}
    prometheus.auth.azure.cloud: expected one of public, government, china
prometheus: {url: 'http://h', auth: {oauth2: {clientId: a, clientSecretFile: b, tokenUrl: c}}}
    prometheus.auth.oauth2.tokenUrl: is no URL: write https://host/path
prometheus: {url: 'http://a:9090,http://b:9090'}
    prometheus.url: is no URL: write http://host:port, of a store or a Service in front of several
prometheus: {url: 'http://h', tls: {certFile: a}}
    prometheus.tls: has only one of certFile and keyFile
prometheus: {url: 'http://h', headers: {'a b': c}}
    prometheus.headers: a key is no header name
prometheus: {url: 'http://h', headers: {a: "b\n"}}
    prometheus.headers.a: its value is no header value
prometheus: {url: 'http://h', matchers: {a-b: c}}
    prometheus.matchers: "a-b" is no label name
gpu: {step: often}
    gpu.step: "often" is not a duration
gpu: {window: 1500ms}
    gpu.window: "1500ms" is no whole number of seconds: write 30s or 1m
gpu: {window: 5m, maxWindow: 1m}
    gpu.window: 5m is longer than gpu.maxWindow, 1m: raise that one or lower this one
gpu: {idle: zero}
    gpu.idle: unknown field `idle`, expected one of enabled
gpu: {step: 500ms}
    gpu.step: "500ms" is out of range: write a duration from 1s to 1m
gpu: {poll: 1ms}
    gpu.poll: "1ms" is out of range: write a duration from 500ms
gpu: {scrapeInterval: 200y}
    gpu.scrapeInterval: "200y" is out of range: write a duration
gpu: {step: 1ms}
    gpu.step: "1ms" is out of range: write a duration
gpu: {maxWindow: 52w}
    gpu.maxWindow: "52w" is out of range: write a duration
gpu: {window: 10y}
    gpu.window: "10y" is out of range: write a duration
gpu: {percentAsRatio: maybe}
    gpu.percentAsRatio: "maybe" is not known: write true or false
gpu: {freshness: 6s}
    gpu.freshness: "6s" is out of range: write a duration from 20s to 1h
gpu: {resources: [gpu]}
    gpu.resources[0]: "gpu" is no resource: write one such as nvidia.com/gpu
gpu: {resources: ['nvidia.com/mig 1g']}
    gpu.resources[0]: "nvidia.com/mig 1g" is no resource: write one such as nvidia.com/gpu
gpu: {resources: [nvidia.com/*gpu]}
    gpu.resources[0]: "nvidia.com/*gpu" is no resource: write one such as nvidia.com/gpu
gpu: {metrics: [{name: a/b, field: X}]}
    gpu.metrics[0].name: "a/b" is no metric name
gpu: {metrics: [{name: '9a', field: X}]}
    gpu.metrics[0].name: "9a" is no metric name
gpu: {metrics: [{name: a, field: X}, {name: A, field: Y}]}
    gpu.metrics[1].name: "A" is the name of gpu.metrics[0] too
gpu: {metrics: [{name: GPU_held_count, field: DCGM_FI_DEV_GPU_TEMP}]}
    gpu.metrics[0].name: "gpu_held_count" is a built-in metric
gpu: {metrics: [{name: a, field: ''}]}
    gpu.metrics[0].field: "" is no series name
gpu: {metrics: [{name: a, field: X, unit: bytes}]}
    gpu.metrics[0].unit: "bytes" is not known: write percent or
gpu: {metrics: [{name: a, field: DCGM_FI_DEV_FB_USED, unit: percent}]}
    gpu.metrics[0].unit: "percent" does not fit DCGM_FI_DEV_FB_USED, whose unit is mebibytes: leave the unit out
gpu: {metrics: [{name: a, field: X, reducer: p95}]}
    gpu.metrics[0].reducer: "p95" is not known: write mean or sum or max
gpu: {metrics: [{name: a, field: X, over: idle}]}
    gpu.metrics[0].over: "idle" is not known: write active or all
"#;

#[test]
fn each_error_has_the_key_the_value_and_what_to_write() {
    let mut lines = REFUSED.lines().skip(1);
    while let (Some(text), Some(message)) = (lines.next(), lines.next()) {
        let error = error(text);
        assert!(error.contains(message.trim()), "{text}\n{error}");
        assert!(error.starts_with("config.yaml:"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, b"rules: []\n\xff").unwrap();
    for (path, words) in [
        (&*file, "it is no text: invalid utf-8"),
        (Path::new("/dev/zero"), "not a regular file"),
    ] {
        let flags = Flags {
            config: Some(path.to_owned()),
            ..Flags::default()
        };
        let error = flags.load().unwrap_err();
        let error = error.to_string();
        assert!(error.contains("cannot be read: "), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
