//! The environment variables that a cloud's platform sets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::error::CloudAuthError;

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Environment variables; an empty one counts as unset.
#[derive(Clone)]
pub struct Environment(Arc<Lookup>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

impl Environment {
    /// The environment variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(Arc::new(|name| std::env::var(name).ok()))
    }

    /// Exactly these variables.
    #[must_use]
    pub fn of<const N: usize>(variables: [(&'static str, String); N]) -> Self {
        Self(Arc::new(move |name| {
            let mut known = variables.iter();
            let (_, value) = known.find(|(known, _)| *known == name)?;
            Some(value.clone())
        }))
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// An address: that of a variable, or else `default`, with a path below it.
    pub(crate) fn url(
        &self,
        name: &'static str,
        default: &str,
        path: &str,
    ) -> Result<Url, CloudAuthError> {
        let base = self.get(name);
        let base = base.as_deref().unwrap_or(default).trim_end_matches('/');
        Url::parse(&format!("{base}/{path}"))
            .map_err(|_| CloudAuthError::Variable(name, "is no URL"))
    }

    pub(crate) fn require(&self, name: &'static str) -> Result<String, CloudAuthError> {
        self.get(name)
            .ok_or(CloudAuthError::Variable(name, "is not set"))
    }
}
