use std::collections::BTreeMap;

use super::book::MOST_LEAVING;
use super::*;

fn places(connections: u32, handshakes: u32) -> Arc<Places> {
    Arc::new(Places::new(&Limits {
        connections,
        handshakes,
        ..Limits::default()
    }))
}

fn order(place: &Place) -> Order {
    *place.order.borrow()
}

fn served(places: &Arc<Places>, verdict: Verdict) -> Arc<Place> {
    let place = Arc::new(places.enter());
    place.spoke();
    let mut busy = place.begin(0);
    busy.received();
    busy.judge(verdict);
    drop(busy);
    place
}

#[tokio::test]
async fn the_oldest_silent_newcomer_goes_first() {
    let places = places(8, 4);
    let speaking = places.enter();
    speaking.spoke();
    let silent: Vec<Place> = (0..5).map(|_| places.enter()).collect();
    assert_eq!(order(&speaking), Order::Stay);
    let orders: Vec<Order> = silent.iter().map(order).collect();
    let (cut, stay) = (Order::Cut, Order::Stay);
    assert_eq!(orders, [cut, cut, stay, stay, stay]);
}

#[tokio::test]
async fn a_newcomer_that_speaks_is_not_driven_out_by_idle_handshakes() {
    let places = places(8, 4);
    let crowd: Vec<Place> = (0..8).map(|_| places.enter()).collect();
    crowd.iter().for_each(Place::spoke);
    let last = places.enter();
    assert_eq!(order(&last), Order::Stay);
    assert_eq!(order(&crowd[4]), Order::Cut);
}

#[tokio::test]
async fn newcomers_take_no_place_of_those_who_were_served() {
    let places = places(8, 4);
    let client = served(&places, Verdict::Client);
    let strangers: Vec<_> = (0..50)
        .map(|_| served(&places, Verdict::Stranger))
        .collect();
    assert_eq!(order(&client), Order::Stay);
    let staying = strangers.iter().filter(|place| order(place) == Order::Stay);
    assert_eq!(staying.count(), 4);
}

#[tokio::test]
async fn the_longest_idle_leaves_first_and_the_trusted_last() {
    let places = places(8, 4);
    let trusted = served(&places, Verdict::Trusted);
    let clients: Vec<_> = (0..4).map(|_| served(&places, Verdict::Client)).collect();
    let orders: Vec<Order> = clients.iter().map(|place| order(place)).collect();
    assert_eq!(
        orders,
        [Order::Leave, Order::Stay, Order::Stay, Order::Stay]
    );
    let mut busy: Vec<Busy> = clients.iter().map(|place| place.begin(0)).collect();
    busy.iter_mut().for_each(Busy::received);
    let _last = served(&places, Verdict::Trusted);
    assert_eq!(order(&trusted), Order::Stay);
    assert_eq!(order(&clients[1]), Order::Cut);
    drop(busy);
}

#[tokio::test]
async fn a_place_is_free_again_once_it_is_dropped() {
    let places = places(8, 4);
    let crowd: Vec<_> = (0..20).map(|_| served(&places, Verdict::Client)).collect();
    drop(crowd);
    places.emptied().await;
    let book = places.book();
    assert!(book.lines.values().all(BTreeMap::is_empty));
}

#[tokio::test]
async fn those_told_to_leave_are_cut_when_too_many_take_their_time() {
    let places = places(4, 2);
    let crowd: Vec<_> = (0..100).map(|_| served(&places, Verdict::Client)).collect();
    let count = |wanted| crowd.iter().filter(|place| order(place) == wanted).count();
    assert_eq!(count(Order::Stay), 2);
    assert_eq!(count(Order::Leave), MOST_LEAVING);
    assert_eq!(count(Order::Cut), 98 - MOST_LEAVING);
}
