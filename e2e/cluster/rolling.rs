//! One replica replaces another during many requests, and no request is lost.
//!
//! A Service for a process on this machine has no endpoints, because EndpointSlices reject
//! loopback addresses. Instead, the port in the APIServices changes, as a Service's
//! endpoint does in an update.

use std::time::Duration;

use super::install::lead;
use super::lab::{APP, Lab, PATIENCE, PODS};
use super::scene::{await_value, reader};
use super::trickle::{Subject, Trickle};
use crate::asking::ApiClient;
use crate::program::{eventually, ok_if};
use crate::prometheus::free_port;

/// Concurrent clients, and the name of their requests.
const CLIENTS: usize = 16;
const LOAD: &str = "load";

/// The first of two independent events when a pod is replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    /// kube-apiserver uses the new replica, then the old one gets the signal.
    Switch,
    /// The old replica gets the signal, then kube-apiserver uses the new one.
    Signal,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn s101_a_rolling_update_under_load_loses_no_request() {
    let mut lab = Lab::start().await;
    lab.deploy(1);
    lab.gpus.work(50);
    let api_client = reader(&lab);
    let path = format!("{PODS}?labelSelector=app%3D{APP}");
    await_value(&api_client, &path, "50").await;
    let client = |_| {
        let subject = Subject {
            name: LOAD,
            path: path.clone(),
            every: Duration::from_millis(20),
            judge: |body| (!body.contains("\"value\":\"50\"")).then(|| body.to_owned()),
        };
        (api_client.clone(), subject)
    };
    let load = Trickle::start((0..CLIENTS).map(client));
    for (first, flags) in [
        (First::Switch, &[][..]),
        (First::Signal, &["--disable-http2"]),
        (First::Switch, &["--disable-http2"]),
        (First::Signal, &[]),
        (First::Signal, &[]),
    ] {
        replace(&mut lab, first, flags, &load).await;
    }
    println!("{} requests", load.count());
    load.assert_answered(Duration::ZERO, &[LOAD]);
}

/// Replaces the serving replica.
async fn replace(lab: &mut Lab, first: First, flags: &[&str], load: &Trickle) {
    let new = free_port();
    let replica = lab.replica(new, flags);
    let api_client = ApiClient::direct(new, None);
    api_client.until_code("/readyz?verbose", 200).await;
    let ended = lab.server.take().unwrap();
    if first == First::Signal {
        ended.signal("TERM");
    }
    lead(&lab.plane, new);
    if first == First::Switch {
        ended.signal("TERM");
    }
    let end = ended.await_end(PATIENCE);
    assert_eq!(end.code, Some(0), "{end:?}");
    end.assert_orderly();
    lab.server = Some(replica);
    lab.port = new;
    let goal = load.count() + 200;
    eventually("further answers", PATIENCE, || {
        ok_if(load.count() >= goal, &load.count())
    });
}
