//! The cases of `cases/*.txt`, in the notation of `cases/README.md`.

use super::answers::Answers;
use super::notation::{self, named_pod, number};
use super::polled::{self, Part};
use super::scene::{ZERO, policy};
use super::situations;
use apimachinery::time::Timestamp;
use gpu_metrics::absence::Absence;

const TABLES: [&str; 8] = [
    include_str!("cases/values.txt"),
    include_str!("cases/labels.txt"),
    include_str!("cases/averages.txt"),
    include_str!("cases/attribution.txt"),
    include_str!("cases/silence.txt"),
    include_str!("cases/explained.txt"),
    include_str!("cases/exporters.txt"),
    include_str!("cases/stores.txt"),
];

/// All cases that are polled, or those that are read once.
fn check(are_polled: bool) {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let cases = TABLES.into_iter().flat_map(notation::cases);
    let cases = cases.filter(|(fact, lines)| {
        fact.contains(&wanted) && situations::is_polled(lines) == are_polled
    });
    let wrong = cases.flat_map(|(fact, lines)| match are_polled {
        true => {
            let wrong = situations::check(&lines).into_iter().take(8);
            wrong.map(|it| format!("{fact}: {it}")).collect()
        }
        false => notation::check((fact, &lines), &policy(50), |case, values| {
            // Samples that arrive after later ones, and twice, change nothing.
            let orders: [&[Part]; 3] = [
                &[|_| true],
                &[|place| place % 3 == 0, |place| place % 3 > 0],
                &[|place| place < 2, |place| place > 2, |place| place > 0],
            ];
            let answers = orders.map(|parts| Answers::new(polled::in_parts(case, parts)));
            let unmet = answers.iter().map(|answers| {
                let unmet = values.iter().filter_map(|value| compare(answers, value));
                unmet.collect::<Vec<_>>()
            });
            unmet.flatten().collect()
        }),
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_case_has_its_values() {
    check(false);
}

#[test]
fn each_situation_has_its_values() {
    check(true);
}

/// A value of the table and the actual one, if they differ.
fn compare(answers: &Answers, text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let snapshot = &answers.snapshot;
    let told = match words[0] {
        "foreign" => Some(snapshot.layout.foreign_nodes.join(" ")),
        "clusters" => Some(snapshot.layout.several_clusters.join(" ")),
        "dated" => {
            let of = words[1..3].join(" ") + " -";
            let wanted = Wanted::read(&of);
            let value = answers.ask(&wanted.object, &wanted.metric);
            let seconds = |at: Timestamp| (at.millis() - ZERO.millis()) / 1000;
            let told = value.map(|it| format!("{} over {}", seconds(it.at), it.window_secs));
            return (told != Some(words[3..].join(" "))).then(|| format!("{text}, not {told:?}"));
        }
        "explained" => {
            let (of, part) = (words[1..3].join(" ") + " -", words[3..].join(" "));
            let told = told(answers, &Wanted::read(&of));
            return (!told.contains(&part)).then(|| format!("{text}, not {told}"));
        }
        _ => None,
    };
    if let Some(told) = told {
        let is_told = told == words[1..].join(" ").trim_start_matches('-');
        return (!is_told).then(|| format!("{text}, not {told}"));
    }
    let wanted = Wanted::read(text);
    assert!(answers.metric(&wanted.metric).is_some(), "{text}");
    let value = answers.of(&wanted.object, &wanted.metric);
    if let Some(reason) = wanted.value.strip_prefix('-').filter(|it| !it.is_empty()) {
        let told = told_absence(answers.absence(&wanted.object, &wanted.metric));
        return (told != reason).then(|| format!("{text}, not {told}"));
    }
    (!wanted.is(value, 0.0)).then(|| format!("{text}, not {value:?}"))
}

/// A value that is expected.
pub(super) struct Wanted<'a> {
    pub(super) object: String,
    pub(super) metric: String,
    value: &'a str,
}

impl<'a> Wanted<'a> {
    /// Reads `namespace sum 40`.
    pub(super) fn read(text: &'a str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let (of, metric, value) = match words[..] {
            [of, value] => (of, "memory_utilization", value),
            [of, metric, value] => (of, metric, value),
            _ => panic!("{text}"),
        };
        let object = match of.split_once(':') {
            Some((kind, name)) => format!("{kind} {name}"),
            None if of == "cluster" => of.to_owned(),
            None if of == "namespace" => "namespaces n".to_owned(),
            None if of == "deployment" => "deployments.apps n/d".to_owned(),
            None if of == "node" => "nodes node-1".to_owned(),
            None => format!("pods {}", named_pod(of).join("/")),
        };
        let metric = match metric {
            "original" => "avg_GPU_utilization".to_owned(),
            "sum" => "gpu_memory_utilization_sum".to_owned(),
            _ => format!("gpu_{metric}"),
        };
        Self {
            object,
            metric,
            value,
        }
    }

    /// Whether this is the value, but for a share of it.
    pub(super) fn is(&self, value: Option<f64>, share: f64) -> bool {
        let bound = |text: &str| self.value.strip_prefix(text).map(number);
        let (text, over) = self.value.split_once('/').unwrap_or((self.value, "1"));
        let near = |text: &str, value: f64| {
            let wanted = number(text) / number(over);
            (value - wanted).abs() <= share * wanted + 1e-9
        };
        match (text.strip_suffix('?'), bound("<"), bound(">")) {
            _ if text == "-" => value.is_none(),
            (Some(maybe), ..) => value.is_none_or(|value| near(maybe, value)),
            (_, Some(most), _) => value.is_some_and(|value| value < most),
            (_, _, Some(least)) => value.is_some_and(|value| value > least),
            _ => value.is_some_and(|value| near(text, value)),
        }
    }
}

/// `Silent2/10`: two of ten GPUs are silent.
fn told_absence(absence: Absence) -> String {
    let Some(cause) = absence.cause else {
        return "TooFewReadings".to_owned();
    };
    let cause = format!("{cause:?}");
    let word = cause.split('(').next().unwrap_or_default();
    format!("{word}{}/{}", absence.devices, absence.of)
}

/// The first device of an explanation. After the number of a reading, `-`: it is not counted.
fn told(answers: &Answers, of: &Wanted<'_>) -> String {
    let explanation = answers.explain(&of.object, &of.metric).unwrap_or_default();
    let Some(device) = explanation.devices.first() else {
        return "no device".to_owned();
    };
    let readings = device.readings.iter().map(|reading| {
        let number = reading.number.map(|number| format!(" {number}"));
        let left_out = if reading.counted { "" } else { " -" };
        format!(
            "{:?}{}{left_out}",
            reading.state,
            number.unwrap_or_default()
        )
    });
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let idle = device.idle_since.map_or("unknown".to_owned(), |idle| {
        let longer = if idle.or_longer { " or longer" } else { "" };
        format!("{}{longer}", idle.seconds)
    });
    let device_of = [Some(device.uuid.clone()), device.instance.clone()];
    format!(
        "{} named by {}, {} on {} by {} held by {} idle {idle} [{}]",
        device_of
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
        text(&device.owner_labels),
        text(&device.model),
        text(&device.node),
        text(&device.field),
        device.pods.join(" "),
        readings.collect::<Vec<_>>().join(", "),
    )
}
