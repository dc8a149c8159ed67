//! Parts of the manual that follow from declarations. `make tables` renews them.

use std::fs;
use std::path::Path;

use findings::codes::{
    ALL, Code, OF_APISERVICES, OF_CONTROLLER, OF_DATA, OF_HPAS, OF_INSTALLATION, OF_SERVER,
};
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::policy::{DeviceValue, Measure};
use gpu_metrics::signal::SignalId;
use prometheus::process_collector::ProcessCollector;

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
