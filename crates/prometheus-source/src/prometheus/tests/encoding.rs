//! Sizes and encodings of answers.

use std::io::Write as _;

use flate2::write::GzEncoder;

use super::*;
use crate::settings::Compression;

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_and_without_its_length() {
    let (fake, mut probe) = probe_with(|it| it.max_body_bytes = 4000).await;
    fake.answer("x".repeat(1001));
    let text = probe.fails(ErrorKind::TooLarge).await;
    let words = "larger than 1000 bytes: raise prometheus.maxBodyBytes";
    assert!(text.contains(words), "{text}");
    // The body is small when compressed, and no header states its decompressed size.
    let packed = gzip(&"x".repeat(1 << 20));
    fake.answer_with(200, &[("content-encoding", "gzip")], packed);
    probe.fails(ErrorKind::TooLarge).await;
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_compressed_answer_is_decompressed_and_a_cut_one_is_truncated() {
    let (fake, mut probe) = probe().await;
    let packed = gzip(ONE);
    // Some proxies compress answers without being asked.
    fake.answer_with(200, &[("content-encoding", "gzip")], packed.clone());
    assert_eq!(probe.fetch().await.unwrap().bytes, ONE.len());
    fake.answer_with(200, &[("content-encoding", "gzip")], packed[..40].to_vec());
    probe.fails(ErrorKind::Truncated).await;
}

#[tokio::test]
async fn uncompressed_answers_are_requested_unless_compression_is_set() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&fake.url());
    for wanted in ["identity", "gzip"] {
        Probe::new(settings.clone()).fetch().await.unwrap();
        let asked = fake.last_request();
        assert_eq!(asked.header("accept-encoding"), Some(wanted));
        settings.compression = Compression::Gzip;
    }
}
