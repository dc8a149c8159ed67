//! Verified front proxies: other clients do not affect them, and they have higher limits.
//! In these tests every client with a certificate is a front proxy.

use super::unread::{cancel, start};
use super::*;
use crate::testing::frames::Frames;
use crate::testing::test_server::validity;

async fn front_proxy(server: &TestServer) -> Frames {
    let shown = server.authority.client("proxy", None, validity()).unwrap();
    let mut client = Frames::connect_as(server, Some(&shown), 1 << 20).await;
    client.open(0, 1 << 30).await;
    client
}

#[tokio::test]
async fn a_front_proxy_keeps_its_connection_when_slots_run_out() {
    let limits = patient(|it| (it.connections, it.front_proxies) = (2, 1));
    let (server, _) = start(limits).await;
    let mut proxy = front_proxy(&server).await;
    proxy.get("/").await.unwrap();
    proxy.answered(1).await;
    // The second one shares the slots of other clients.
    let mut second = front_proxy(&server).await;
    second.get("/").await.unwrap();
    second.answered(1).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = Frames::connect(&server, 1 << 20).await;
        other.open(0, 1 << 30).await;
        other.get("/").await.unwrap();
        other.answered(1).await;
        others.push(other);
    }
    second.closed().await;
    proxy.get("/").await.unwrap();
    proxy.answered(2).await;
}

#[tokio::test]
async fn a_front_proxy_may_cancel_many_requests() {
    let (server, alive) = start(patient(|_| ())).await;
    let mut proxy = front_proxy(&server).await;
    assert!(cancel(&mut proxy, &alive, 200).await);
    // Likewise before the requests are handled.
    assert!(proxy.get_and_cancel("/never", 100).await);
    proxy.get("/").await.unwrap();
    proxy.answered(1).await;
}

#[tokio::test]
async fn only_a_front_proxy_has_many_requests_at_a_time() {
    let (server, alive) = start(patient(|_| ())).await;
    let mut proxy = front_proxy(&server).await;
    let mut other = Frames::connect(&server, 1 << 20).await;
    for (client, most) in [(&mut other, 16), (&mut proxy, 250)] {
        let before = alive.asked.load(Ordering::SeqCst);
        for _ in 0..most + 20 {
            client.get("/never").await.unwrap();
        }
        let came = || alive.asked.load(Ordering::SeqCst) - before;
        until("requests", async || came() >= most).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(came(), most);
    }
}
