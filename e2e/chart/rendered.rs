//! What each fixture's values make of the chart, in `rendered/NAME.txt`: every field that is not
//! as with the chart's defaults, and in `rendered/default.txt` all of those. With
//! `UPDATE_GOLDEN` set, the files are written instead.

use super::*;

/// The fields of objects by their places, such as `Service/0/spec/type`: the first Service.
type Fields = BTreeMap<String, String>;

fn fields(name: &str) -> Fields {
    let mut fields = Fields::new();
    let objects = render(name);
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for object in &objects {
        let kind = object["kind"].as_str().unwrap();
        let place = count.entry(kind).or_default();
        add(&mut fields, format!("{kind}/{place}"), object);
        *place += 1;
    }
    fields
}

/// Adds the fields of a value, also of a text in YAML, or its lines where there are more comments
/// than the reader takes.
fn add(fields: &mut Fields, place: String, value: &Value) {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            for (key, value) in inner {
                add(fields, format!("{place}/{}", key.replace('/', "~1")), value);
            }
        }
        Value::Array(flags) if place.ends_with("/args") => {
            for flag in flags {
                let flag = flag.as_str().unwrap();
                let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
                fields.insert(format!("{place}/{name}"), value.to_owned());
            }
        }
        Value::Array(inner) if !inner.is_empty() => {
            for (index, value) in inner.iter().enumerate() {
                add(fields, format!("{place}/{index}"), value);
            }
        }
        Value::String(text) if place.ends_with("/config.yaml") => {
            let lines = || text.lines().map(Value::from).collect();
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(text).unwrap_or_else(|_| lines());
            add(fields, place, &Value::Array(documents));
        }
        // `values` and `monitoring` compare these.
        _ if place.ends_with("/checksum~1config") || place.ends_with(".json") => {}
        _ => {
            let value = value.to_string();
            let value = value.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            fields.insert(place, value);
        }
    }
}

/// Each field that differs from the defaults, with `-` as they have it and `+` as it is.
fn differences(fields: &Fields, defaults: &Fields) -> String {
    let places: BTreeSet<&String> = fields.keys().chain(defaults.keys()).collect();
    let mut text = String::new();
    for place in places {
        let (before, after) = (defaults.get(place), fields.get(place));
        if before != after {
            for (sign, value) in [('-', before), ('+', after)] {
                let line = value.map(|value| format!("{sign} {place}: {value}\n"));
                text += &line.unwrap_or_default();
            }
        }
    }
    text
}

#[test]
fn each_fixture_makes_of_the_chart_what_is_written() {
    let defaults = fields("default");
    for name in fixtures() {
        let found = match name.as_str() {
            "default" => differences(&defaults, &Fields::new()),
            _ => differences(&fields(&name), &defaults),
        };
        let file = root().join(format!("e2e/chart/rendered/{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &found).unwrap();
        }
        let wanted = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "{}: {found}", file.display());
    }
}
