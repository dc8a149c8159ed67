//! Every flag of prometheus-adapter v0.12.0 is accepted.

use super::*;
use aggregated_apiserver::security::always_allowed::AlwaysAllowed;

/// The flags in `adapter --help` of v0.12.0 that have an effect here, with a value for
/// those that take one.
const WITH_EFFECT: &str = "
    authentication-kubeconfig=/kubeconfig authentication-skip-lookup
    authentication-token-webhook-cache-ttl=10s authentication-tolerate-lookup-failure
    authorization-always-allow-paths=/healthz,/readyz,/livez authorization-kubeconfig=/kubeconfig
    authorization-webhook-cache-authorized-ttl=10s authorization-webhook-cache-unauthorized-ttl=10s
    bind-address=0.0.0.0 cert-dir=/certs client-ca-file=/ca.crt config=/etc/adapter/config.yaml
    disable-http2 lister-kubeconfig=/kubeconfig metrics-max-age=10m metrics-relist-interval=10m
    prometheus-auth-config=/kubeconfig prometheus-auth-incluster prometheus-ca-file=/ca.crt
    prometheus-client-tls-cert-file=/tls.crt prometheus-client-tls-key-file=/tls.key
    prometheus-header=X-Scope-OrgID=a prometheus-token-file=/token prometheus-url=https://localhost
    prometheus-verb=GET requestheader-allowed-names=a,b requestheader-client-ca-file=/ca.crt
    requestheader-extra-headers-prefix=x-remote-extra- requestheader-group-headers=x-remote-group
    requestheader-username-headers=x-remote-user secure-port=443 tls-cert-file=/tls.crt
    tls-min-version=VersionTLS12 tls-private-key-file=/tls.key v=6
";

/// Flags that are accepted without effect. None of them concerns trust or permissions.
const WITHOUT_EFFECT: &str = "
    audit-log-batch-buffer-size=10000 audit-log-batch-max-size=1 audit-log-batch-max-wait=1s
    audit-log-batch-throttle-burst=1 audit-log-batch-throttle-enable
    audit-log-batch-throttle-qps=1.5 audit-log-compress audit-log-format=json audit-log-maxage=1
    audit-log-maxbackup=1 audit-log-maxsize=1 audit-log-mode=blocking audit-log-path=/tmp/audit
    audit-log-truncate-enabled audit-log-truncate-max-batch-size=1
    audit-log-truncate-max-event-size=1 audit-log-version=audit.k8s.io/v1 audit-policy-file=/policy
    audit-webhook-batch-buffer-size=1 audit-webhook-batch-max-size=1 audit-webhook-batch-max-wait=1s
    audit-webhook-batch-throttle-burst=1 audit-webhook-batch-throttle-enable
    audit-webhook-batch-throttle-qps=1 audit-webhook-config-file=/hook
    audit-webhook-initial-backoff=1s audit-webhook-mode=batch audit-webhook-truncate-enabled
    audit-webhook-truncate-max-batch-size=1 audit-webhook-truncate-max-event-size=1
    audit-webhook-version=audit.k8s.io/v1 client-burst=10 client-qps=5 contention-profiling
    debug-socket-path=/socket discovery-interval=10m enable-priority-and-fairness
    http2-max-streams-per-connection=100 log-flush-frequency=5s permit-address-sharing
    permit-port-sharing profiling vmodule=a=1
    tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA
    tls-sni-cert-key=/a.crt,/a.key:*.foo.com,foo.com
";

/// A flag that another one requires, in both programs.
fn beside(name: &str) -> Option<&'static str> {
    Some(match name {
        "tls-cert-file" => "--tls-private-key-file=/x",
        "tls-private-key-file" => "--tls-cert-file=/x",
        "prometheus-client-tls-cert-file" => "--prometheus-client-tls-key-file=/x",
        "prometheus-client-tls-key-file" => "--prometheus-client-tls-cert-file=/x",
        _ => return None,
    })
}

#[test]
fn every_flag_is_accepted_in_every_form_and_reported_if_it_has_no_effect() {
    for (flags, sentences) in [(WITH_EFFECT, 0), (WITHOUT_EFFECT, 1)] {
        for flag in flags.split_whitespace() {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            let mut forms = vec![vec![format!("--{flag}")]];
            if value.is_empty() {
                forms.push(vec![format!("--{name}=true")]);
                forms.push(vec![format!("--{name}=false")]);
            } else {
                forms.push(vec![format!("--{name}"), value.to_owned()]);
            }
            for mut form in forms {
                form.extend(beside(name).map(str::to_owned));
                let (args, said) = parse(&form).unwrap_or_else(|error| panic!("{form:?}: {error}"));
                assert!(args.words.is_empty(), "{form:?}: {:?}", args.words);
                assert_eq!(said.len(), sentences, "{form:?}: {said:?}");
            }
        }
    }
}

/// The flags with a value that is no text: numbers, addresses, durations, and lists, whose empty
/// value is an empty list.
const NO_TEXTS: &str = "
    authentication-token-webhook-cache-ttl authorization-always-allow-paths
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
    bind-address metrics-max-age metrics-relist-interval prometheus-header
    requestheader-allowed-names requestheader-extra-headers-prefix requestheader-group-headers
    requestheader-username-headers secure-port v
";

#[test]
fn an_empty_text_is_no_value() {
    let shown = |flags: &[String]| {
        let (args, said) = parse(flags).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        assert_eq!(said, Vec::<String>::new(), "{flags:?}");
        format!("{args:?}")
    };
    let default = shown(&[]);
    let with_value = WITH_EFFECT.split_whitespace();
    let names = with_value.filter_map(|flag| Some(flag.split_once('=')?.0));
    let no_texts: Vec<&str> = NO_TEXTS.split_whitespace().collect();
    let mut texts = 0;
    for name in names.filter(|name| !no_texts.contains(name)) {
        assert_eq!(shown(&[format!("--{name}=")]), default, "{name}");
        let separate = [format!("--{name}"), String::new()];
        assert_eq!(shown(&separate), default, "{name}");
        texts += 1;
    }
    assert_eq!(texts, 17);
    assert!(parse(&["--prometheus-auth-config=", "--prometheus-auth-incluster"]).is_ok());
    let (args, _) = parse(&["--authorization-always-allow-paths="]).unwrap();
    let none = AlwaysAllowed::parse("").unwrap();
    assert_eq!(args.cluster.authorization_always_allow_paths, Some(none));
}

#[test]
fn flags_that_restrict_trust_and_tls_have_an_effect() {
    let (args, said) = parse(&[
        "--tls-min-version=VersionTLS13",
        "--disable-http2-serving",
        "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure",
    ])
    .unwrap();
    assert_eq!(said, Vec::<String>::new());
    assert!(args.listening.disable_http2);
    let versions = aggregated_apiserver::serve::tls::ONLY_TLS13;
    assert_eq!(args.listening.tls_min_version, versions);
    assert!(args.cluster.authentication_skip_lookup);
    assert!(args.cluster.authentication_tolerate_lookup_failure);
    let (args, _) = parse(&["--tls-min-version=VersionTLS10"]).unwrap();
    assert_eq!(args.listening.tls_min_version, rustls::ALL_VERSIONS);
    assert!(parse(&["--tls-min-version=VersionTLS99"]).is_err());
}

/// As in the adapter, with several credentials for Prometheus.
#[test]
fn a_token_file_takes_precedence_over_the_pods_and_two_methods_are_rejected() {
    let of_pod = "--prometheus-auth-incluster";
    assert!(parse(&[of_pod, "--prometheus-token-file=/token"]).is_ok());
    assert!(parse(&[of_pod, "--prometheus-auth-config=/k"]).is_err());
}
