//! Servers that start while all else is running.

use std::time::Duration;

use super::scene::{METRICS, PATIENCE, Reader, exporters, path};
use super::{WINDOW, await_full};
use crate::program::eventually;
use crate::prometheus::Storage;
use crate::served::Answer;

/// A window of this length shows that the server read history: it has not polled for that
/// long itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_serves_the_previous_values_at_once() {
    let nodes = exporters().await;
    let store = Storage::new().start(&nodes.scrapes()).await;
    let former = Reader::start(&store.url, "{window: 30s}");
    await_full(&former);
    former.program.signal("TERM");
    let server = Reader::start(&store.url, "{window: 30s}");
    let end = former.program.await_end(PATIENCE);
    assert_eq!(end.code, Some(0), "{end:?}");
    end.assert_orderly();
    let (metric, value) = METRICS[0];
    let first = eventually("the first answer", PATIENCE, || {
        match server.client.values(&path(metric)) {
            Ok(served) => Ok(served),
            Err(Answer::Other(excuse)) => Err(excuse),
            Err(answer) => panic!("no value at once: {answer:?}"),
        }
    });
    assert_eq!((&*first[0].value, first[0].window), (value, WINDOW));
    let took = server.program.age();
    assert!(took < Duration::from_secs(WINDOW - 5), "{took:?}");
}

/// This store refuses the samples of all fields at once.
#[tokio::test(flavor = "multi_thread")]
async fn fields_that_are_too_many_for_one_answer_are_read_one_by_one() {
    let nodes = exporters().await;
    let store = Storage::of_few_samples().start(&nodes.scrapes()).await;
    let server = Reader::start(&store.url, "{window: 10s, freshness: 20s}");
    server
        .program
        .await_stderr("each name of a field is queried by itself");
    server.await_values(&METRICS);
}
