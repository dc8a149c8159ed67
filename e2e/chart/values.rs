//! The meaning of values: prometheus-adapter's values have the same effect as in its
//! chart, and this chart's own values have the documented effect.

use std::collections::BTreeSet;

use configuration::{Config, Flags};
use serde_json::{Value, json};

use super::*;
use crate::manual::texts;
use crate::program::Program;

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn helm_lint_reports_no_problem() {
    let chart = chart();
    for name in fixtures() {
        let file = fixture(&name);
        let arguments = ["lint", "--strict", chart.to_str().unwrap(), "-f"];
        run(&[&arguments[..], &[file.to_str().unwrap()]].concat(), None)
            .unwrap_or_else(|said| panic!("{name}: {said}"));
    }
}

#[test]
fn the_chart_is_of_the_programs_version() {
    let chart = yaml(&chart().join("Chart.yaml"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_schema_knows_the_keys_of_the_values_and_of_older_charts() {
    let schema = std::fs::read_to_string(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let keys =
        |it: &Value| -> BTreeSet<String> { it.as_object().unwrap().keys().cloned().collect() };
    let mut wanted = keys(&yaml(&chart().join("values.yaml")));
    for name in ["enabled", "global", "dnsPolicy", "psp", "runAsUser"] {
        assert!(wanted.insert(name.to_owned()), "{name}");
    }
    assert_eq!(keys(&schema["properties"]), wanted);
}

/// The examples of `docs/stores.md`, with a configuration that the server accepts.
#[test]
fn the_values_of_the_manual_for_clouds_are_taken() {
    for (section, method) in [
        ("Amazon", "sigv4"),
        ("Google Cloud", "google"),
        ("Azure", "azure"),
        ("OAuth 2.0", "oauth2"),
        ("Grafana Cloud", "basic"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let values = ["yaml not run: values of the chart", "yaml"];
        let values = values
            .map(|about| texts("docs/stores.md", section, about))
            .concat();
        let [values] = &values[..] else {
            panic!("{section}: {values:?}");
        };
        std::fs::write(file.path(), values).unwrap();
        let objects = render_file(file.path(), &["gpu.enabled=true"]).unwrap();
        let url = flag(&objects, "prometheus-url").unwrap();
        let flags = Flags {
            prometheus_url: Some(url.parse().unwrap()),
            ..Flags::default()
        };
        let read = Config::from_yaml("f", configuration(&objects), &flags).unwrap();
        let auth = format!("{:?}", read.prometheus.unwrap().auth).to_lowercase();
        assert!(auth.contains(method), "{section}: {auth}");
    }
}

#[test]
fn a_port_or_a_path_in_the_address_of_prometheus_is_kept() {
    for (given, expected) in [
        ("http://prom.m.svc", "http://prom.m.svc:9090/p"),
        ("http://prom.m.svc/", "http://prom.m.svc:9090/p"),
        ("http://prom.m.svc:80", "http://prom.m.svc:80/p"),
        (
            "http://mimir.svc/prometheus",
            "http://mimir.svc/prometheus/p",
        ),
        ("http://[fd00::1]", "http://[fd00::1]:9090/p"),
        ("http://[fd00::1]:80", "http://[fd00::1]:80/p"),
    ] {
        let values = tempfile::NamedTempFile::new().unwrap();
        let text = json!({"prometheus": {"url": given, "path": "/p"}}).to_string();
        std::fs::write(values.path(), text).unwrap();
        let objects = render_file(values.path(), &[]).unwrap();
        let address = flag(&objects, "prometheus-url");
        assert_eq!(address.as_deref(), Some(expected), "{given}");
    }
}

#[test]
fn a_wrong_shape_and_a_typo_in_our_own_sections_are_refused_with_their_place() {
    for (setting, words) in [
        (
            "gpu.widnow=1m",
            "at '/gpu': additional properties 'widnow' not allowed",
        ),
        ("prometheus.tls.ca=x", "at '/prometheus/tls'"),
        ("rules.custom=everything", "at '/rules/custom'"),
        ("presets={tgi}", "at '/presets/0'"),
        ("env.A=1", "at '/env'"),
        ("replicas=many", "at '/replicas'"),
        ("metricsRelistInterval=60", "at '/metricsRelistInterval'"),
        (
            "metricsRelistInterval=1 hour",
            "at '/metricsRelistInterval'",
        ),
    ] {
        let said = refusal("default", &[setting]);
        assert!(said.contains(words), "{setting}: {said}");
    }
}

#[test]
fn a_key_that_the_adapters_chart_never_had_is_named_and_changes_nothing() {
    let objects = render("unknown-keys");
    let mut config: Value = serde_saphyr::from_str(configuration(&objects)).unwrap();
    let warnings = config.as_object_mut().unwrap().remove("warnings");
    let unknown =
        |key: &str, rest: &str| format!("values: {key} is not known and changes nothing; {rest}");
    let of_prometheus = "known there: auth, headers, matchers, \
                         maxConcurrentQueries, path, port, timeout, tls, url, verb";
    let wanted = [
        unknown("loglevel", "did you mean logLevel?"),
        unknown("prometheus.insecureSkipVerify", of_prometheus),
        unknown("prometheus.scheme", of_prometheus),
        unknown("rbac.customMetrics.resource", "did you mean resources?"),
    ];
    assert_eq!(warnings, Some(json!(wanted)));
    let plain: Value = serde_saphyr::from_str(configuration(&render("default"))).unwrap();
    assert_eq!(config, plain);
    assert_eq!(flag(&objects, "v").unwrap(), "4");
    // The server logs them.
    let read = Config::from_yaml("f", configuration(&objects), &Flags::default());
    assert_eq!(read.unwrap().warnings, wanted);
}

#[test]
fn an_empty_map_in_place_of_a_list_is_an_empty_list() {
    assert_eq!(render("empty-shapes"), render("default"));
}

#[test]
fn every_default_of_the_adapters_chart_keeps_its_meaning() {
    let objects = render("all-defaults");
    assert_eq!(one(&objects, "Deployment")["spec"]["replicas"], 1);
    assert_eq!(of(&objects, "PodDisruptionBudget").len(), 0);
    let container = container(&objects);
    // Without the intended differences, which these values do not contain.
    let wanted = json!({
        "httpGet": {"path": "/healthz", "port": "https", "scheme": "HTTPS"},
        "initialDelaySeconds": 30, "timeoutSeconds": 5,
        "periodSeconds": 10, "failureThreshold": 6,
    });
    assert_eq!(container["livenessProbe"], wanted);
    let mut others = try_render(
        "all-defaults",
        &["replicas=2", "podDisruptionBudget.enabled=true"],
    );
    let others = others.as_mut().unwrap();
    let pod = others.iter_mut().find(|it| it["kind"] == "Deployment");
    let container = &mut pod.unwrap()["spec"]["template"]["spec"]["containers"][0];
    let ours = render("default");
    for probe in ["livenessProbe", "readinessProbe"] {
        container[probe] = super::container(&ours)[probe].clone();
    }
    assert_eq!(*others, ours);
}

#[test]
fn verification_is_never_skipped_and_only_given_authorities_are_written() {
    for name in fixtures() {
        let text = serde_json::to_string(&render(&name)).unwrap();
        assert!(!text.contains("insecureSkipTLSVerify"), "{name}");
        let own = ["tls", "own-certificate"].contains(&name.as_str());
        assert_eq!(text.contains("caBundle"), own, "{name}");
    }
}

#[test]
fn the_adapters_image_is_never_run() {
    let ours = format!("gpu-metrics-apiserver:{}", env!("CARGO_PKG_VERSION"));
    for name in ["default", "all-defaults", "older-keys"] {
        assert_eq!(container(&render(name))["image"], ours, "{name}");
    }
    let mirror = "image.repository=mirror.example.com/prometheus-adapter/prometheus-adapter";
    let said = refusal("default", &[mirror]);
    assert!(said.contains("is prometheus-adapter's image"), "{said}");
    // A tag from the old values, an image from the command line.
    let setting = "image.repository=registry.example.com/gpu-metrics-apiserver";
    let objects = try_render("default", &[setting, "image.tag=v0.12.0"]).unwrap();
    assert_eq!(
        container(&objects)["image"],
        format!("registry.example.com/{ours}")
    );
}

#[test]
fn extra_arguments_take_the_place_of_the_charts() {
    let objects = render("everything-set");
    assert_eq!(flag(&objects, "secure-port").unwrap(), "6444");
    let arguments = arguments(&render("certificate-in-arguments"));
    assert!(arguments.contains(&"-v=6".to_owned()), "{arguments:?}");
    let again = |it: &&String| it.starts_with("--v=");
    assert_eq!(arguments.iter().find(again), None);
}

/// The program refuses unknown flags before it reads the file.
#[test]
fn the_program_takes_the_flags_and_the_configuration() {
    for name in fixtures() {
        let objects = render(&name);
        let mut arguments = arguments(&objects);
        for argument in &mut arguments {
            if argument.starts_with("--config=") {
                "--config=/nowhere/config.yaml".clone_into(argument);
            }
        }
        let end = Program::run(Program::command(&arguments));
        assert!(
            end.stderr.contains("/nowhere/config.yaml"),
            "{name}: {}",
            end.stderr
        );
        if name == "existing-rules" {
            continue;
        }
        let url = flag(&objects, "prometheus-url").unwrap();
        let flags = Flags {
            prometheus_url: Some(url.parse().unwrap()),
            ..Flags::default()
        };
        let config = Config::from_yaml(&name, configuration(&objects), &flags);
        let config = config.unwrap_or_else(|error| panic!("{name}: {error}"));
        if name == "our-keys" {
            let prometheus = config.prometheus.unwrap();
            assert_eq!(prometheus.headers["x-scope-orgid"], "team-a");
            assert_eq!(prometheus.max_concurrent_queries, 8);
            assert_eq!(config.metrics.len(), 1);
            let presets: Vec<&str> = config.presets.iter().map(|it| it.name()).collect();
            assert_eq!(presets, ["vllm", "endpoint-picker"]);
        }
    }
}

#[test]
fn rules_are_written_as_the_adapters_chart_does() {
    let config = |name| -> Value {
        let objects = render(name);
        serde_saphyr::from_str(configuration(&objects)).unwrap()
    };
    // The rules that are compared with prometheus-adapter itself.
    let mut rules = yaml(&root().join("e2e/peer/configs/defaults.yaml"))["rules"].take();
    for rule in rules.as_array_mut().unwrap() {
        let rule = rule.as_object_mut().unwrap();
        rule.entry("seriesFilters").or_insert(json!([]));
    }
    assert_eq!(config("default")["rules"], rules);
    let custom = yaml(&fixture("custom-rules"));
    assert_eq!(config("custom-rules")["rules"], custom["rules"]["custom"]);
    let external = config("external-rules");
    assert_eq!(external["rules"], rules);
    let values = yaml(&fixture("external-rules"));
    assert_eq!(external["externalRules"], values["rules"]["external"]);
    let resource = config("resource-rules");
    let values = yaml(&fixture("resource-rules"));
    assert_eq!(resource["resourceRules"], values["rules"]["resource"]);
}

#[test]
fn an_existing_configmap_is_mounted_and_the_chart_writes_none() {
    let objects = render("existing-rules");
    assert_eq!(of(&objects, "ConfigMap").len(), 0);
    let volumes = &pod(&objects)["volumes"];
    assert_eq!(volumes[0]["configMap"]["name"], "rules-of-mine");
    for setting in [
        "gpu.maxWindow=10m",
        "prometheus.verb=POST",
        "presets={vllm}",
    ] {
        let said = refusal("existing-rules", &[setting]);
        let words = "the ConfigMap rules-of-mine contains the whole configuration";
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn pods_are_replaced_when_their_configuration_changes() {
    let sum = |settings: &[&str]| {
        let objects = try_render("default", settings).unwrap();
        one(&objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]
            ["checksum/config"]
            .clone()
    };
    assert!(sum(&[]).is_string());
    assert_eq!(sum(&[]), sum(&["networkPolicy.enabled=false"]));
    assert_ne!(sum(&[]), sum(&["gpu.maxWindow=10m"]));
}
