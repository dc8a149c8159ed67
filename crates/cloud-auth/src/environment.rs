//! The environment variables that a cloud's platform sets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

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
    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(Arc::new(|name| std::env::var(name).ok()))
    }

    /// These and no others.
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

    pub(crate) fn require(&self, name: &'static str) -> Result<String, CloudAuthError> {
        let missing = CloudAuthError::Variable {
            name,
            reason: "is not set",
        };
        self.get(name).ok_or(missing)
    }
}
