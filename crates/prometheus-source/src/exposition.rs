//! The text format of exporters: `name{label="value", …} number`.
//!
//! Only the part that DCGM exporters of all versions print (docs/exporter.md,
//! "Lines"): no timestamps, spaces after commas in some versions, label values
//! unescaped up to 4.8.2.

/// One sample line.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleLine<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// The labels in the printed order, with escapes resolved.
    pub labels: Vec<(&'a str, String)>,
    /// The value.
    pub value: f64,
}

/// Parses one line; `None` for comments, empty lines and lines without a sample.
pub(crate) fn parse(line: &str) -> Option<SampleLine<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let name_end = line.find(['{', ' ', '\t'])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            rest = rest.trim_start_matches([' ', ',']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once('=')?;
            let (value, after) = quoted(after.trim_start())?;
            labels.push((label.trim(), value));
            rest = after;
        }
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(SampleLine {
        name,
        labels,
        value,
    })
}

/// A quoted value, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut chars = inner.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Some((value, &inner[index + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_generations_are_read() {
        let old = r#"DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0", UUID="GPU-6", device="nvidia0",container="",namespace="",pod=""} 37"#;
        let line = parse(old).unwrap();
        assert_eq!(line.name, "DCGM_FI_DEV_MEM_COPY_UTIL");
        assert_eq!(line.labels[1], ("UUID", "GPU-6".to_owned()));
        assert_eq!(line.labels.len(), 6);
        assert_eq!(line.value, 37.0);
        let escaped = parse(r#"x{a="q\"\\\n}"} 1e+06"#).unwrap();
        assert_eq!(escaped.labels[0].1, "q\"\\\n}");
        assert_eq!(escaped.value, 1e6);
        assert_eq!(parse("up 1").unwrap().labels.len(), 0);
    }

    #[test]
    fn what_is_no_sample_is_left_out() {
        for text in [
            "",
            "# HELP x y",
            "x{a=\"b\" 1",
            "x{a=\"b",
            "x{a}",
            "x",
            "x{} y",
            "{",
            "x{=}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
