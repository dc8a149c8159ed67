//! The meaning of flags, and which ones are rejected.

use super::*;

/// prometheus-adapter's chart passes a stray word. With pflag the last repetition counts.
#[test]
fn words_without_a_flag_and_repeated_flags_are_accepted() {
    let (args, _) = parse(&["/adapter", "-v6", "--secure-port=1", "--secure-port", "2"]).unwrap();
    assert_eq!((args.logging.v, args.listening.secure_port), (6, 2));
    assert_eq!(args.words, ["/adapter"]);
    let (args, _) = parse(&["--metrics-relist-interval=1m"]).unwrap();
    assert_eq!(args.rules.metrics_relist_interval.as_secs(), 60);
    assert_eq!(args.rules.metrics_max_age, None);
    let (args, _) = parse(&["--shutdown-delay-duration=1m30s"]).unwrap();
    assert_eq!(args.listening.shutdown_delay_duration.as_secs(), 90);
    let (args, _) = parse(&["--disable-http2", "false", "--take-over=false"]).unwrap();
    assert!(args.listening.disable_http2 && !args.listening.take_over);
}

#[test]
fn invalid_values_are_rejected() {
    assert!(parse(&["--shutdown-delay-duration=soon"]).is_err());
    assert!(parse(&["--tls-cert-file=a"]).is_err());
    assert!(parse(&["--prometheus-header=a b=c"]).is_err());
    assert!(parse(&["--prometheus-url=nowhere"]).is_err());
    assert!(parse(&["--prometheus-header=X-Scope-OrgID=a=b"]).is_ok());
}
