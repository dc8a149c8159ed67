//! Sizes and encodings of answers.

use std::io::Write as _;

use flate2::write::GzEncoder;

use super::*;

/// A body whose only series never ends.
fn endless() -> String {
    let beginning = &ONE[..ONE.find("GPU-1").unwrap()];
    format!("{beginning}{}", "x".repeat(3 << 20))
}

#[tokio::test]
async fn a_series_without_end_is_refused_also_if_it_is_compressed() {
    let (fake, mut probe) = probe().await;
    fake.answer(endless());
    let text = probe.fails(ErrorKind::TooLarge).await;
    assert!(text.contains("bytes in one series: select less"), "{text}");
    fake.answer_with(200, &[("content-encoding", "gzip")], gzip(&endless()));
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
    probe.fetch().await.unwrap();
    assert_eq!(probe.sizes(), (1, 2));
    fake.answer_with(200, &[("content-encoding", "gzip")], packed[..40].to_vec());
    probe.fails(ErrorKind::Truncated).await;
}

#[tokio::test]
async fn uncompressed_answers_are_requested_unless_a_header_asks_for_gzip() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&fake.url());
    for wanted in ["identity", "gzip"] {
        Probe::new(settings.clone()).fetch().await.unwrap();
        let asked = fake.last_request();
        assert_eq!(asked.header("accept-encoding"), Some(wanted));
        let gzip = "gzip".parse().unwrap();
        settings.headers.insert("accept-encoding", gzip);
    }
}
