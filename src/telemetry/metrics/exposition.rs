//! The two text formats of `/metrics`.
//!
//! The library writes OpenMetrics 1.0. In the Prometheus text format 0.0.4, the lines
//! `# HELP` and `# TYPE` have the name of the samples, with its suffix.

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Exposition {
    /// The content type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that an Accept header prefers. If it names neither, the Prometheus
    /// format, which every scraper accepts.
    pub(crate) fn wanted(accept: &str) -> Self {
        let qualities = |wanted| accept.split(',').filter_map(move |it| quality(it, wanted));
        let best = |wanted| qualities(wanted).fold(0.0, f64::max);
        let open = best("application/openmetrics-text");
        match open > 0.0 && open >= best("text/plain") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }
}

/// The quality of an Accept clause, if it names the media type.
fn quality(clause: &str, wanted: &str) -> Option<f64> {
    let mut parts = clause.split(';').map(str::trim);
    let _named = parts.next().filter(|it| it.eq_ignore_ascii_case(wanted))?;
    let quality = parts.find_map(|part| part.strip_prefix("q="));
    let quality = quality.map_or(Some(1.0), |text| text.parse().ok())?;
    (0.0..=1.0).contains(&quality).then_some(quality)
}

/// Rewrites OpenMetrics as the Prometheus text format 0.0.4.
pub(super) fn to_prometheus(open: &str) -> String {
    let mut out = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The name depends on the type, which the next line has.
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "gauge" | "histogram" => ("", kind),
                _ => ("", "untyped"),
            };
            if let Some((_, text)) = help.take() {
                out.push_str(&format!("# HELP {name}{suffix} {text}\n"));
            }
            out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_format_is_chosen() {
        use Exposition::{OpenMetrics, Prometheus};
        // Prometheus 2.42 and 3.x, curl, kubectl.
        for (accept, wanted) in [
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                 version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
            ("*/*", Prometheus),
            ("", Prometheus),
            ("application/json, */*", Prometheus),
            (
                "text/plain;version=0.0.4, application/openmetrics-text;q=0.5",
                Prometheus,
            ),
            ("application/openmetrics-text;q=0", Prometheus),
            ("application/openmetrics-text;q=x", Prometheus),
        ] {
            assert_eq!(Exposition::wanted(accept), wanted, "{accept}");
        }
    }

    #[test]
    fn descriptions_name_the_samples() {
        let open = "# HELP a Things.\n# TYPE a counter\na_total{x=\"# y\"} 1\n# HELP b_seconds B.\n\
                    # TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 2.5\n\
                    # HELP c C.\n# TYPE c info\nc_info{v=\"1\"} 1\n# EOF\n";
        let text = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"# y\"} 1\n\
                    # HELP b_seconds B.\n# TYPE b_seconds gauge\nb_seconds 2.5\n\
                    # HELP c_info C.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n";
        assert_eq!(to_prometheus(open), text);
    }
}
