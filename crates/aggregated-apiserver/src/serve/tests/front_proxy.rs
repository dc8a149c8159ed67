//! Verified front proxies: other clients do not affect them, and they have higher limits.
//! In these tests every client with a certificate is a front proxy.

use std::sync::atomic::AtomicBool;

use super::unread::start;
use super::*;
use crate::testing::authority::ClientCertificates as _;
use crate::testing::frames::Frames;
use crate::testing::test_server::validity;

async fn front_proxy(server: &TestServer) -> Frames {
    let shown = server.authority.client("proxy", None, validity()).unwrap();
    let mut client = Frames::connect_as(server, Some(&shown), 1 << 20).await;
    client.open(0, 1 << 30).await;
    client
}

#[tokio::test]
async fn other_clients_do_not_displace_a_front_proxy() {
    let limits = patient(|it| it.connections = 2);
    let (server, _) = start(limits).await;
    let mut proxy = front_proxy(&server).await;
    proxy.get("/").await.unwrap();
    proxy.answered(1).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = Frames::connect(&server, 1 << 20).await;
        other.open(0, 1 << 30).await;
        other.get("/").await.unwrap();
        other.answered(1).await;
        others.push(other);
    }
    others[0].closed().await;
    proxy.get("/").await.unwrap();
    proxy.answered(2).await;
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

#[tokio::test]
async fn a_connection_ends_when_its_certificate_proves_another_class() {
    let is_trusted = Arc::new(AtomicBool::new(false));
    let trusted = Arc::clone(&is_trusted);
    let (_stop, stopped) = watch::channel(false);
    let service = service(Duration::ZERO, &Arc::default());
    let server = TestServer::until(stopped, service, patient(|_| ()), |listener| {
        listener.is_front_proxy = Arc::new(move |_| trusted.load(Ordering::SeqCst));
    })
    .await;
    let mut early = front_proxy(&server).await;
    early.get("/").await.unwrap();
    early.answered(1).await;
    is_trusted.store(true, Ordering::SeqCst);
    early.get("/").await.unwrap();
    early.answered(2).await;
    early.closed().await;
    let mut later = front_proxy(&server).await;
    for count in 1..=2 {
        later.get("/").await.unwrap();
        later.answered(count).await;
    }
}
