//! A kube-apiserver that answers reviews as the test sets, and records them.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;

use crate::security::identity::Identity;
use crate::security::reviewer::{Access, AccessVerdict, Reviewer, TokenVerdict};

/// How reviews end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mood {
    /// With an answer.
    #[default]
    Healthy,
    /// With an error.
    Failing,
    /// Never.
    Hanging,
}

type Rule = Box<dyn Fn(&Identity, &Access) -> AccessVerdict + Send>;
type Whose = Box<dyn Fn(&str) -> bool + Send>;

struct State {
    mood: Mood,
    tokens: BTreeMap<String, Identity>,
    rule: Rule,
    asked_tokens: Vec<String>,
    asked: Vec<(Identity, Access)>,
    held: Whose,
}

/// The reviewer. It allows everything to all users except the anonymous one, until
/// [`Self::rule`] sets another rule.
pub struct FakeReviewer {
    state: Mutex<State>,
    released: watch::Sender<u64>,
}

impl FakeReviewer {
    pub fn new() -> Self {
        let rule: Rule = Box::new(|identity, _| match identity.user.as_str() {
            "system:anonymous" => AccessVerdict::Refused(String::new()),
            _ => AccessVerdict::Allowed(()),
        });
        Self {
            state: Mutex::new(State {
                mood: Mood::Healthy,
                tokens: BTreeMap::new(),
                rule,
                asked_tokens: Vec::new(),
                asked: Vec::new(),
                held: Box::new(|_| false),
            }),
            released: watch::Sender::new(0),
        }
    }

    /// Sets how reviews end from now on.
    pub fn mood(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// Holds reviews of these users or tokens until [`Self::release`].
    pub fn hold(&self, held: impl Fn(&str) -> bool + Send + 'static) {
        self.state.lock().unwrap().held = Box::new(held);
    }

    /// Answers the held reviews, and holds no further ones.
    pub fn release(&self) {
        self.hold(|_| false);
        self.released.send_modify(|times| *times += 1);
    }

    /// Decides a review of this user or token, and answers in the reviewer's mood.
    async fn review<T>(
        &self,
        whose: &str,
        decide: impl FnOnce(&mut State) -> T,
    ) -> Result<T, String> {
        let (mood, verdict) = {
            let mut state = self.state.lock().unwrap();
            (state.mood, decide(&mut state))
        };
        // Lets other requests join the same review.
        tokio::task::yield_now().await;
        let mut released = self.released.subscribe();
        if (self.state.lock().unwrap().held)(whose) {
            released.changed().await.expect("the fake is there");
        }
        match mood {
            Mood::Healthy => Ok(verdict),
            Mood::Failing => Err("10.96.0.1:443: refused".to_owned()),
            Mood::Hanging => pending().await,
        }
    }

    /// Makes the token identify this user from now on.
    pub fn token_is(&self, token: &str, user: &str) {
        let identity = Identity {
            user: user.to_owned(),
            ..Identity::default()
        };
        let mut state = self.state.lock().unwrap();
        state.tokens.insert(token.to_owned(), identity);
    }

    /// Decides reviews with this rule from now on.
    pub fn rule(&self, rule: impl Fn(&Identity, &Access) -> AccessVerdict + Send + 'static) {
        self.state.lock().unwrap().rule = Box::new(rule);
    }

    /// The tokens of all TokenReviews.
    pub fn tokens_asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked_tokens.clone()
    }

    /// The users and accesses of all SubjectAccessReviews.
    pub fn asked(&self) -> Vec<(Identity, Access)> {
        self.state.lock().unwrap().asked.clone()
    }

    /// The user and access of the newest review.
    pub fn last(&self) -> (Identity, Access) {
        self.asked().pop().expect("a review")
    }
}

impl Reviewer for FakeReviewer {
    fn token<'a>(&'a self, token: &'a SecretString) -> BoxFuture<'a, Result<TokenVerdict, String>> {
        let token = token.expose_secret();
        Box::pin(self.review(token, |state| {
            state.asked_tokens.push(token.to_owned());
            match state.tokens.get(token) {
                Some(identity) => TokenVerdict::Allowed(identity.clone()),
                None => TokenVerdict::Refused("unknown".to_owned()),
            }
        }))
    }

    fn access<'a>(
        &'a self,
        identity: &'a Identity,
        what: &'a Access,
    ) -> BoxFuture<'a, Result<AccessVerdict, String>> {
        Box::pin(self.review(&identity.user, |state| {
            state.asked.push((identity.clone(), what.clone()));
            (state.rule)(identity, what)
        }))
    }
}
