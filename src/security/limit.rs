//! Limits on all requests at a time. A body's size is the listener's business:
//! no request here has one.

use super::authenticate::User;
use super::authorize::is_open;
use super::identity::{ANONYMOUS, MASTERS};
use super::places::{Place, Places, Rank, Share, Shares};
use super::reviewer::Access;
use super::settings::Settings;

/// Refuses requests at once when too many are under way, in all or of one user.
/// It stands after authentication, as in the reference: who asks decides about
/// the lane, so that nobody's flood costs the API server its probes, nor one
/// user's another his answers.
#[derive(Debug)]
pub struct InFlight {
    values: Places,
    discovery: Places,
    users: Shares,
    user: usize,
    proxied_user: usize,
    anonymous: usize,
}

/// What a request takes while it is under way: a part of its user's share and
/// a place of its lane.
#[derive(Debug)]
pub struct Permit {
    _share: Option<Share>,
    _place: Option<Place>,
}

impl InFlight {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            values: Places::new(settings.values_in_flight),
            discovery: Places::new(settings.discovery_in_flight),
            users: Shares::default(),
            user: settings.user_in_flight,
            proxied_user: settings.proxied_user_in_flight,
            anonymous: settings.anonymous_in_flight,
        }
    }

    /// `None` when too many are under way.
    #[must_use]
    pub fn permit(&self, user: Option<&User>, what: &Access) -> Option<Permit> {
        let who = user.map(|user| &user.identity);
        let rank = user.map_or(Rank::Common, |user| user.rank);
        if is_open(what) || who.is_some_and(|who| who.is_in(MASTERS)) {
            return Some(Permit {
                _share: None,
                _place: None,
            });
        }
        let Some(who) = who.filter(|who| !who.is_anonymous()) else {
            let share = self.users.take((rank, ANONYMOUS), self.anonymous)?;
            return Some(Permit {
                _share: Some(share),
                _place: None,
            });
        };
        let most = match rank {
            Rank::First => self.proxied_user,
            Rank::Common => self.user,
        };
        let share = self.users.take((rank, &who.user), most)?;
        let lane = match what {
            Access::Resource { .. } => &self.values,
            Access::NonResource { .. } => &self.discovery,
        };
        Some(Permit {
            _share: Some(share),
            _place: Some(lane.try_take(rank)?),
        })
    }
}
