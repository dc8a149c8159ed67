//! Servers that start while all else is running.

use std::time::Duration;

use super::scene::{PATIENCE, PODS_A, PODS_B, Scene, WINDOW, ask, of_window, pair};
use crate::kubectl::{Answer, Kubectl, Served};
use crate::program::eventually;
use crate::prometheus::{Engine, Storage};

/// A window of this length shows that the server read history: it has not polled for that
/// long itself.
const LONG: &str = "?metricLabelSelector=window%3D30s";
const LONG_SECS: u64 = 30;

fn long(path: &str) -> String {
    format!("{path}{LONG}")
}

/// The first answer of a new server with values.
fn first_answer(kubectl: &Kubectl, path: &str) -> Vec<Served> {
    eventually("the first answer", PATIENCE, || match ask(kubectl, path) {
        Ok(served) => Ok(served),
        Err(Answer::NotFound(message)) => panic!("no value at once: {message}"),
        Err(Answer::Other(excuse)) => Err(excuse),
        Err(Answer::Body(body)) => panic!("no values: {body}"),
    })
}

/// Waits until the server has a long window. Returns its values.
fn full_window(scene: &Scene) -> Vec<Served> {
    eventually("a full long window", PATIENCE, || {
        let served = scene
            .ask(&long(PODS_A))
            .map_err(|answer| format!("{answer:?}"))?;
        let full = served.iter().all(|served| served.window == LONG_SECS);
        if full {
            Ok(served)
        } else {
            Err(format!("{served:?}"))
        }
    })
}

/// The limit of one answer, a quarter of this size, has room for some seconds of this
/// fleet's samples.
#[tokio::test(flavor = "multi_thread")]
async fn a_past_that_is_too_large_for_one_answer_is_read_in_parts() {
    let scene = Scene::start().await;
    full_window(&scene);
    let config = of_window(WINDOW) + "prometheus: {maxBodyBytes: 52000}\n";
    let (server, kubectl) = scene.serve_configured("parts", &config);
    let served = first_answer(&kubectl, &long(PODS_A));
    println!("values {:?} after the start of the process", server.age());
    let found: Vec<(&str, &str)> = served.iter().map(pair).collect();
    assert_eq!(found, [("far-0", "80"), ("idle-0", "0"), ("train-0", "50")]);
    let whole = served.iter().all(|served| served.window == LONG_SECS);
    assert!(whole, "{served:?}");
    server.await_stderr("larger than 13000 bytes");
    server.await_stderr("it is queried in smaller parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_serves_the_previous_values_at_once() {
    let mut scene = Scene::start().await;
    let before = full_window(&scene);
    let (server, kubectl) = {
        scene.server.signal("TERM");
        let again = scene.serve_again("again", WINDOW);
        let end = std::mem::replace(&mut scene.server, again.0).await_end(PATIENCE);
        assert_eq!(end.code, Some(0), "{end:?}");
        end.assert_orderly();
        (&scene.server, again.1)
    };
    let after = first_answer(&kubectl, &long(PODS_A));
    let took = server.age();
    println!("values {took:?} after the start of the process");
    assert!(took < Duration::from_secs(LONG_SECS - 5), "{took:?}");
    assert_eq!(
        before.iter().map(pair).collect::<Vec<_>>(),
        after.iter().map(pair).collect::<Vec<_>>()
    );
    assert!(
        after.iter().all(|served| served.window == LONG_SECS),
        "{after:?}"
    );
    eventually("the others' values", PATIENCE, || {
        let others = ask(&kubectl, PODS_B).map_err(|answer| format!("{answer:?}"))?;
        let found: Vec<(&str, &str)> = others.iter().map(pair).collect();
        let whole = found == [("batch-0", "30"), ("serve-0", "20")];
        whole.then_some(()).ok_or_else(|| format!("{found:?}"))
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_below_four_scrapes_is_extended() {
    let scene = Scene::start().await;
    let (_server, kubectl) = scene.serve_again("short", 3);
    eventually("values of the stretched window", PATIENCE, || {
        let served = ask(&kubectl, PODS_A).map_err(|answer| format!("{answer:?}"))?;
        let stretched = served.iter().all(|served| served.window == 4);
        stretched.then_some(()).ok_or_else(|| format!("{served:?}"))
    });
}

/// This store rejects any query for the samples of all GPUs, also that of a poll.
#[tokio::test(flavor = "multi_thread")]
async fn devices_that_are_too_many_for_one_answer_are_read_in_shards() {
    let scene = Scene::start().await;
    let scrapes = scene.exporters.scrapes();
    let store = Engine::start(Storage::of_few_samples(), &scrapes).await;
    let (server, kubectl) = scene.serve_of(&store, "shards", &of_window(WINDOW));
    server.await_stderr("each field is queried by itself");
    server.await_stderr("it is queried in smaller parts");
    eventually("the values of all pods", PATIENCE, || {
        let served = ask(&kubectl, PODS_A).map_err(|answer| format!("{answer:?}"))?;
        let found: Vec<(&str, &str)> = served.iter().map(pair).collect();
        let all = [("far-0", "80"), ("idle-0", "0"), ("train-0", "50")];
        let is_full = served.iter().all(|served| served.window == WINDOW);
        (found == all && is_full)
            .then_some(())
            .ok_or_else(|| format!("{served:?}"))
    });
}
