//! The paths that need no access review, listed only here.

use super::reviewer::Access;

/// The probes of liveness and readiness. kubelet sends no credentials. Only these exact
/// paths match.
pub(crate) const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

pub(crate) fn is_health(what: &Access) -> bool {
    match what {
        Access::NonResource { path, .. } => HEALTH.contains(&path.as_str()),
        Access::Resource { .. } => false,
    }
}

/// Paths that need no access review. Values and all other resources always need one,
/// whatever is configured here. Discovery needs one by default too; Kubernetes grants it to
/// every authenticated user (ClusterRole `system:discovery`). Matching is as in apiserver
/// `pkg/authorization/path/path.go`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlwaysAllowed {
    /// Without their leading slash. A path that ends in `*` is a prefix.
    paths: Vec<String>,
}

impl Default for AlwaysAllowed {
    fn default() -> Self {
        Self {
            paths: HEALTH.map(|path| without_slash(path).to_owned()).into(),
        }
    }
}

impl AlwaysAllowed {
    /// Parses paths separated by commas, each with or without its leading slash. A path that
    /// ends in `*` is a prefix. Without a path every one requires a review, including health
    /// probes.
    ///
    /// # Errors
    /// When a star is not the last character.
    pub fn parse(paths: &str) -> Result<Self, String> {
        let read = |path: &str| {
            let text = without_slash(path);
            match text.strip_suffix('*').unwrap_or(text).contains('*') {
                true => Err(format!(
                    "{path:?}: a star is allowed at the end only: write /metrics or /openapi/*"
                )),
                false => Ok(text.to_owned()),
            }
        };
        let paths = paths.split(',').filter(|path| !path.is_empty());
        let paths = paths.map(read).collect::<Result<_, _>>()?;
        Ok(Self { paths })
    }

    pub(super) fn holds(&self, what: &Access) -> bool {
        let Access::NonResource { path, .. } = what else {
            return false;
        };
        let path = without_slash(path);
        self.paths
            .iter()
            .any(|allowed| match allowed.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => allowed == path,
            })
    }
}

fn without_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(paths: &[&str]) -> Result<AlwaysAllowed, String> {
        AlwaysAllowed::parse(&paths.join(","))
    }

    fn held(paths: &[&str], path: &str) -> bool {
        let access = Access::NonResource {
            verb: "get".to_owned(),
            path: path.to_owned(),
        };
        parsed(paths).unwrap().holds(&access)
    }

    /// The cases of apiserver `pkg/authorization/path/path_test.go`.
    #[test]
    fn paths_match_as_in_the_reference() {
        for (paths, path, allowed) in [
            (&[][..], "/healthz", false),
            (&["/healthz"], "/healthz", true),
            (&["healthz"], "/healthz", true),
            (&["/healthz"], "/healthzx", false),
            (&["/healthz"], "/healthz/", false),
            (&["/readyz/*"], "/readyz/ping", true),
            (&["/readyz/*"], "/readyz", false),
            (&["/readyz*"], "/readyzed", true),
            (&["*"], "/anything", true),
            (&["/"], "/", true),
            (&["/"], "/apis", false),
            (&["/a", "/b*"], "/bc", true),
        ] {
            assert_eq!(held(paths, path), allowed, "{paths:?} {path}");
        }
        for wrong in ["/a*/b", "/**", "*a"] {
            let error = parsed(&["/healthz", wrong]).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
