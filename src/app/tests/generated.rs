//! Parts of the manual and of the chart that follow from declarations. `make tables` renews
//! them.

use std::fs;
use std::path::Path;

use findings::codes::{
    ALL, Code, OF_APISERVICES, OF_CONTROLLER, OF_DATA, OF_HPAS, OF_INSTALLATION, OF_SERVER,
};
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::policy::{DeviceValue, Measure};
use gpu_metrics::signal::SignalId;
use prometheus::process_collector::ProcessCollector;
use serde_json::Value;

use crate::telemetry::metrics::Metrics;

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// Compares the part of a file between two texts with these lines. With `RENEW` set, they are
/// written instead.
fn assert_generated(file: &str, (begin, end): (&str, &str), lines: &[String]) {
    let text = read(file);
    let (before, rest) = text.split_once(begin).expect(begin);
    let (part, after) = match end {
        "" => (rest, ""),
        end => rest.split_once(end).expect(end),
    };
    let wanted = lines.join("\n");
    if std::env::var_os("RENEW").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        fs::write(path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
    } else {
        assert_eq!(part, wanted, "{file} is not up to date: make tables");
    }
}

#[test]
fn generated_table_of_metrics_is_up_to_date() {
    let mut collectors = Metrics::new().unwrap().collectors();
    collectors.push(Box::new(ProcessCollector::for_self()));
    let mut rows = Vec::new();
    for collector in collectors {
        for (desc, family) in collector.desc().into_iter().zip(collector.collect()) {
            let kind = format!("{:?}", family.get_field_type()).to_lowercase();
            let labels = desc.variable_labels.iter().map(|it| format!("`{it}`"));
            let labels = labels.collect::<Vec<_>>().join(", ");
            let (name, help) = (&desc.fq_name, desc.help.trim_end_matches('.'));
            rows.push(format!("| `{name}` | {kind} | {labels} | {help} |"));
        }
    }
    let heading = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
    assert_generated("docs/metrics.md", (heading, "\n\n"), &rows);
}

#[test]
fn generated_list_of_findings_is_up_to_date() {
    let mut codes = ALL.to_vec();
    codes.sort_by_key(|code| code.id);
    let ids = [codes[0].id, codes[codes.len() - 1].id];
    let heading = format!("{}]()", ids.join(" to "));
    let entry = |it: &&Code| format!("  - [{}: {}](checks/{}.md)", it.id, it.title, it.id);
    let lines: Vec<String> = [heading]
        .into_iter()
        .chain(codes.iter().map(entry))
        .collect();
    let place = ("\n- [Checks: ", "\n\n# Reference");
    assert_generated("docs/SUMMARY.md", place, &lines);
}

#[test]
fn generated_table_of_findings_is_up_to_date() {
    let named = |lists: &[&[&'static Code]]| {
        let codes = lists.concat();
        let ids: Vec<&str> = codes.iter().map(|code| code.id).collect();
        match &ids[..] {
            [first, .., last] if ids.len() > 4 => format!("{first} to {last}"),
            _ => ids.join(", "),
        }
    };
    let rows = [
        (
            named(&[OF_DATA]),
            "with every poll",
            "nothing. While Prometheus does not answer, only GM301 has a series",
        ),
        (
            named(&[OF_APISERVICES, OF_CONTROLLER]),
            "every five minutes",
            "the rights of `manifests/rbac.yaml`",
        ),
        (
            named(&[OF_HPAS]),
            "every five minutes, for 5,000 autoscalers at most",
            "`manifests/optional/autoscalers.yaml`, or `rbac.autoscalers` of the chart",
        ),
        (
            named(&[OF_SERVER]),
            "continuously",
            "nothing: they are about the server itself",
        ),
        (
            named(&[OF_INSTALLATION]),
            "never: only `check` reads the objects they need",
            "",
        ),
    ];
    let rows =
        rows.map(|(codes, checked, requires)| format!("| {codes} | {checked} | {requires} |"));
    let place = ("| codes | checked | requires |\n|---|---|---|\n", "\n\n");
    assert_generated("docs/metrics.md", place, &rows);
}

#[test]
fn generated_table_of_built_in_metrics_is_up_to_date() {
    let rows = metrics::TABLE.map(|(name, _, meaning)| format!("| `{name}` | {meaning} |"));
    let place = ("| metric | meaning |\n|---|---|\n", "\n\n");
    assert_generated("docs/concepts.md", place, &rows);
}

#[test]
fn generated_table_of_fields_is_up_to_date() {
    let reads = |measure, field| {
        let Measure::Devices { value, .. } = measure else {
            return false;
        };
        let (own, profiled) = value.signals();
        let of_percent = [SignalId::FB_FREE, SignalId::FB_RESERVED];
        let is_part = value == DeviceValue::MemoryUsedPercent && of_percent.contains(&field);
        own == field || profiled == Some(field) || is_part
    };
    let row = |field: SignalId| {
        let all = metrics::TABLE.into_iter();
        let readers = all.filter(|(_, measure, _)| reads(*measure, field));
        let readers: Vec<String> = readers.map(|(name, ..)| format!("`{name}`")).collect();
        let name = field.series_name().unwrap();
        format!("| `{name}` | {} |", readers.join(", "))
    };
    let rows: Vec<String> = fields::built_in().iter().map(|it| row(it.id)).collect();
    let place = ("| field | metrics |\n|---|---|\n", "\n\n");
    assert_generated("docs/install.md", place, &rows);
}

/// The source of the keys of a section of the configuration.
const GPU: (&str, &str) = ("gpu.rs", "Gpu");
const METRIC: (&str, &str) = ("metrics.rs", "Metric");
const PROMETHEUS: (&str, &str) = ("connection.rs", "Connection");

/// The keys of a section of the configuration with their types.
fn keys((file, name): (&str, &str)) -> Vec<(String, String)> {
    let source = read(&format!("crates/configuration/src/{file}"));
    let (_, rest) = source.split_once(&format!("struct {name} {{\n")).unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let fields = body
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    let fields = fields.filter_map(|field| field.split_once(": "));
    let key = |(field, kind): (&str, &str)| {
        let mut words = field.rsplit(' ').next().unwrap().split('_');
        let first = words.next().unwrap().to_owned();
        let rest = words.map(|word| word[..1].to_uppercase() + &word[1..]);
        (first + &rest.collect::<String>(), kind.to_owned())
    };
    fields.map(key).collect()
}

#[test]
fn every_key_of_the_configuration_has_a_row_in_the_manual() {
    for (section, page, heading) in [
        (GPU, "docs/configuration.md", "| key | meaning |"),
        (PROMETHEUS, "docs/stores.md", "| key | default | meaning |"),
    ] {
        let text = read(page);
        let (_, table) = text.split_once(heading).expect(heading);
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let mut listed: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
        let mut known = keys(section);
        listed.sort_unstable();
        known.sort_unstable();
        let known: Vec<&str> = known.iter().map(|(key, _)| &**key).collect();
        assert_eq!(listed, known, "{page}");
    }
}

/// The definition of a type in the schema of the chart; `text` is that of a scalar.
fn definition<'a>(kind: &str, text: &'a str) -> &'a str {
    let known = [
        ("Vec<Metric>", "metrics"),
        ("Vec<Scalar", "strings"),
        ("BTreeMap<", "scalars"),
        ("Authentication", "authentication"),
        ("Certificates", "clientTls"),
        ("<Verb>", "verb"),
        ("<Timeout>", "duration"),
        ("<Count>", "number"),
    ];
    let found = known.into_iter().find(|(part, _)| kind.contains(part));
    found.map_or(text, |(_, definition)| definition)
}

#[test]
fn generated_schema_of_the_configuration_is_up_to_date() {
    let object = |key: &str, indent: usize| {
        let more = [
            "\"type\": [\"object\", \"null\"],\n",
            "\"additionalProperties\": false,\n",
            "\"properties\": {\n",
        ];
        let outer = " ".repeat(indent);
        let inner = more.map(|line| format!("{outer} {line}")).concat();
        (format!("\"{key}\": {{\n{inner}"), format!("\n{outer} }}\n"))
    };
    let path = "\"path\": {\"$ref\": \"#/$defs/text\"},\n".to_owned();
    for (section, (begin, end), text) in [
        (METRIC, object("items", 3), "text"),
        (GPU, object("gpu", 2), "scalar"),
        (PROMETHEUS, (path, "\n   }\n".to_owned()), "text"),
    ] {
        let indent = " ".repeat(end.find('}').unwrap());
        let of_chart = |key: &&(String, String)| key.0 != "url";
        let keys = keys(section);
        let lines = keys.iter().filter(of_chart).map(|(key, kind)| {
            let definition = definition(kind, text);
            format!("{indent}\"{key}\": {{\"$ref\": \"#/$defs/{definition}\"}}")
        });
        let lines = lines.collect::<Vec<_>>().join(",\n");
        assert_generated(
            "charts/gpu-metrics-apiserver/values.schema.json",
            (&begin, &end),
            &[lines],
        );
    }
}

/// The keys of a schema, down to sections that accept no other keys.
fn known(schema: &Value) -> Vec<String> {
    let properties = schema["properties"].as_object().unwrap().iter();
    let keys = properties.map(|(key, inner)| {
        let is_open = inner["properties"].is_object() && inner["additionalProperties"] != false;
        match is_open {
            true => format!("{key}: {{{}}}", known(inner).join(", ")),
            false => key.clone(),
        }
    });
    let mut keys: Vec<String> = keys.collect();
    keys.sort_unstable();
    keys
}

#[test]
fn generated_values_of_the_chart_are_up_to_date() {
    let schema = read("charts/gpu-metrics-apiserver/values.schema.json");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let keys = known(&schema).into_iter();
    let keys = keys.map(|key| if key.contains(':') { key } else { key + ":" });
    let lines: Vec<String> = keys.chain([String::new()]).collect();
    let file = "charts/gpu-metrics-apiserver/files/keys.yaml";
    assert_generated(file, ("and changes nothing.\n", ""), &lines);
}

#[test]
fn generated_list_of_presets_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/configuration/src/presets");
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|it| it.unwrap().path().file_stem().unwrap().to_owned());
    let mut names: Vec<String> = names.map(|it| format!("{it:?}")).collect();
    names.sort_unstable();
    let place = (
        "\"presets\": {\n   \"type\": [\"array\", \"object\", \"null\"],\n   \"maxProperties\": 0,\n   \"items\": {\"enum\": [",
        "]}",
    );
    let file = "charts/gpu-metrics-apiserver/values.schema.json";
    assert_generated(file, place, &[names.join(", ")]);
}
