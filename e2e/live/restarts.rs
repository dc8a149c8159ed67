//! Servers that start while all else is running.

use std::time::Duration;

use super::scene::{GPU, PATIENCE, PODS_A, Scene, VALUES_A, WINDOW, ask, await_window, pair};
use crate::asking::ApiClient;
use crate::program::eventually;
use crate::prometheus::Storage;
use crate::served::{Answer, Served};
use crate::stores::scene::Reader;

/// A window of this length shows that the server read history: it has not polled for that
/// long itself.
const LONG_SECS: u64 = 30;

fn long() -> String {
    format!("{PODS_A}?metricLabelSelector=window%3D30s")
}

/// Asserts that the first answer of a new server has the values over a long window.
fn assert_history(client: &ApiClient) {
    let first = eventually("the first answer", PATIENCE, || {
        match ask(client, &long()) {
            Ok(served) => Ok(served),
            Err(Answer::Other(excuse)) => Err(excuse),
            Err(answer) => panic!("no value at once: {answer:?}"),
        }
    });
    let is_long = |served: &Served| served.window == LONG_SECS;
    assert!(
        first.iter().map(pair).eq(VALUES_A) && first.iter().all(is_long),
        "{first:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_serves_the_previous_values_at_once() {
    let mut scene = Scene::start().await;
    await_window(&scene.server, &long(), LONG_SECS);
    scene.server.program.signal("TERM");
    let again = Reader::start(&scene.prometheus.url, GPU);
    let former = std::mem::replace(&mut scene.server, again);
    let end = former.program.await_end(PATIENCE);
    assert_eq!(end.code, Some(0), "{end:?}");
    end.assert_orderly();
    assert_history(&scene.server.client);
    let took = scene.server.program.age();
    assert!(took < Duration::from_secs(LONG_SECS - 5), "{took:?}");
}

/// This store refuses the samples of all fields at once.
#[tokio::test(flavor = "multi_thread")]
async fn fields_that_are_too_many_for_one_answer_are_read_one_by_one() {
    let scene = Scene::start().await;
    let scrapes = scene.exporters.scrapes();
    let store = Storage::of_few_samples().start(&scrapes).await;
    let server = Reader::start(&store.url, GPU);
    server
        .program
        .await_stderr("each name of a field is queried by itself");
    await_window(&server, PODS_A, WINDOW);
}
