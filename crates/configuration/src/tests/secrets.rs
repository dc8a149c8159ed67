//! Invalid files with credentials: the errors contain none of them.

use super::*;

const SECRET: &str = "hunter2";

/// The error for a file: one line without the secret that has the file's name and a line number.
fn without_secret(text: &str) -> String {
    let error = error(text);
    assert!(text.contains(SECRET), "{text}");
    assert!(!error.contains(SECRET), "{text}\n{error}");
    assert!(
        error.starts_with("config.yaml:") && !error.contains('\n'),
        "{error}"
    );
    error
}

#[test]
fn no_error_has_an_excerpt_of_the_file_and_each_has_its_place() {
    for (text, place) in [
        (
            "prometheus:\n  url: http://me:hunter2@p\n  timeoutt: 5s\n",
            ":3:3: ",
        ),
        (
            "gpu:\n  window: 60\n# prometheus: http://me:hunter2@p\n",
            ":2:11",
        ),
        (
            "prometheus:\n  headers: {Authorization: 'Bearer hunter2'\n",
            ":2:12: ",
        ),
        (
            "prometheus: {url: 'http://p', headers: {Authorization: [hunter2]}}\n",
            ":1:",
        ),
    ] {
        let error = without_secret(text);
        assert!(error.contains(place), "{error}");
    }
}

#[test]
fn addresses_headers_credentials_and_aliases_are_not_shown() {
    for text in [
        "prometheus: {url: 'htp://user:pw@prom:9090?token=hunter2'}\n",
        "prometheus: {url: 'prom:9090?token=hunter2'}\n",
        "prometheus: {url: 'http://p', headers: {'Bearer hunter2': x}}\n",
        // A file of credentials in place of the configuration.
        "-----BEGIN PRIVATE KEY-----\nMIIhunter2MII\nhunter2==\n-----END PRIVATE KEY-----\n",
        "hunter2",
        "me:hunter2\n",
        "TOKEN=hunter2\nOTHER=hunter2\n",
        "!hunter2 x\n",
        "prometheus: hunter2\n",
        "rules: [hunter2]\n",
        r#"["hunter2"]"#,
        // Aliases of a credential.
        "prometheus:\n  url: http://p\n  headers: {Authorization: &t hunter2}\ngpu: {window: *t}\n",
        "prometheus:\n  url: http://p\n  headers: {Authorization: &t hunter2}\ngpu: {window: [*t]}\n",
        "prometheus:\n  url: http://p\n  headers: &h {Authorization: hunter2}\ngpu: *h\n",
        "prometheus:\n  headers: {Authorization: &t hunter2}\n  url: *t\n",
        "secrets: &s hunter2\nprometheus: {url: 'http://p', headers: {Authorization: *s}}\n",
        "prometheus: &p hunter2\ngpu: *p\n",
    ] {
        without_secret(text);
    }
}

#[test]
fn an_error_at_an_alias_in_a_rule_does_not_show_its_value() {
    for alias in [
        "rules: [{seriesQuery: up, metricsQuery: up, name: {matches: *a}}]",
        "rules: [{seriesQuery: up, metricsQuery: up, seriesFilters: [{is: *a}]}]",
        "rules: [{seriesQuery: up, metricsQuery: up, resources: {template: *a}}]",
        "resourceRules: {window: *a}",
    ] {
        let text =
            format!("prometheus: {{url: 'http://p', headers: {{X: &a '(hunter2'}}}}\n{alias}\n");
        let warnings = load(&text).warnings.join("\n");
        assert!(warnings.contains("the value of its alias"), "{warnings}");
        assert!(!warnings.contains(SECRET), "{alias}\n{warnings}");
    }
}
