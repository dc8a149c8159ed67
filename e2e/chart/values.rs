//! The values: what is refused, and what the program makes of the others.

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
fn wrong_values_are_refused_with_their_place_and_the_remedy() {
    let mirror = "image.repository=mirror.example.com/prometheus-adapter/prometheus-adapter";
    let unverified = "verification is never skipped";
    let whole = "the ConfigMap rules-of-mine contains the whole configuration";
    for (fixture, setting, words) in [
        (
            "default",
            "gpu.widnow=1m",
            "at '/gpu': additional properties 'widnow' not allowed",
        ),
        ("default", "prometheus.tls.ca=x", "at '/prometheus/tls'"),
        ("default", "rules.custom=everything", "at '/rules/custom'"),
        ("default", "presets={tgi}", "at '/presets/0'"),
        ("default", "env.A=1", "at '/env'"),
        ("default", "replicas=many", "at '/replicas'"),
        (
            "default",
            "metricsRelistInterval=60",
            "at '/metricsRelistInterval'",
        ),
        (
            "default",
            "metricsRelistInterval=1 hour",
            "at '/metricsRelistInterval'",
        ),
        ("default", mirror, "is prometheus-adapter's image"),
        ("default", "tls.enable=true", "tls.enable without tls.ca"),
        ("default", "certificates.existingSecret=mine", unverified),
        (
            "default",
            "certificates.existingSecret=mine",
            "set it in certificates.ca",
        ),
        (
            "default",
            "extraArguments={--tls-cert-file=/a,--tls-private-key-file=/b}",
            unverified,
        ),
        (
            "default",
            "extraArguments={--cert-dir=/tmp/cert}",
            unverified,
        ),
        ("existing-rules", "gpu.maxWindow=10m", whole),
        ("existing-rules", "prometheus.verb=POST", whole),
        ("existing-rules", "presets={vllm}", whole),
    ] {
        let said = try_render(fixture, &[setting]).unwrap_err();
        assert!(said.contains(words), "{setting}: {said}");
    }
}

#[test]
fn verification_is_never_skipped() {
    for name in fixtures() {
        let text = serde_json::to_string(&render(&name)).unwrap();
        assert!(!text.contains("insecureSkipTLSVerify"), "{name}");
    }
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
        if name == "unknown-keys" {
            assert_eq!(config.warnings.len(), 4, "{:?}", config.warnings);
        }
    }
}

/// Those that are compared with prometheus-adapter itself.
#[test]
fn the_default_rules_are_those_of_the_adapters_chart() {
    let config: Value = serde_saphyr::from_str(configuration(&render("default"))).unwrap();
    let mut rules = yaml(&root().join("e2e/peer/configs/defaults.yaml"))["rules"].take();
    for rule in rules.as_array_mut().unwrap() {
        let rule = rule.as_object_mut().unwrap();
        rule.entry("seriesFilters").or_insert(json!([]));
    }
    assert_eq!(config["rules"], rules);
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
