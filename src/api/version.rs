//! `/version` (apimachinery `pkg/version/types.go`), so that `kubectl version`
//! understands the server when it is asked directly.

use serde::Serialize;

use super::json;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    major: &'static str,
    minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// The document.
pub(crate) fn document() -> Vec<u8> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json::document(&Info {
        major: env!("CARGO_PKG_VERSION_MAJOR"),
        minor: env!("CARGO_PKG_VERSION_MINOR"),
        git_version: concat!("v", env!("CARGO_PKG_VERSION")),
        git_commit: option_env!("GIT_COMMIT").unwrap_or(""),
        git_tree_state: "",
        build_date: "",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{architecture}", std::env::consts::OS),
    })
}
