//! Configuration files: an error has its place, and what is configured can be requested.

use configuration::{Config, Flags};
use gpu_metrics_apiserver::api::path;

pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let read = || Config::from_yaml("f", text, &Flags::default());
    let config = match read() {
        Ok(config) => config,
        Err(error) => {
            let error = error.to_string();
            super::check_line(&error);
            let place = error.strip_prefix("f:").expect("the file's name");
            let line = place.split(':').next().and_then(|line| line.parse().ok());
            let is_missing = place.contains("is missing") || place.contains("set both");
            let last = text.split('\n').count();
            assert!(
                line.map_or(is_missing, |line| (1..=last).contains(&line)),
                "{error}"
            );
            return;
        }
    };
    assert_eq!(
        format!("{config:?}"),
        format!("{:?}", read().expect("the same text"))
    );
    for fault in &config.faults {
        super::check_line(fault);
        assert!(config.warnings.contains(fault), "{fault}");
    }
    for (place, signal) in config.signals.iter().enumerate() {
        assert_eq!(usize::from(signal.id.0), place);
    }
    // A path has room for 512 bytes.
    for metric in config.metrics.iter().filter(|it| it.name.len() <= 512) {
        let base = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/a";
        let path = format!("{base}/{}", metric.name);
        assert!(path::parse(&path).is_ok(), "{path}");
    }
}
