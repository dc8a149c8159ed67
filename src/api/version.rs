//! `/version` (apimachinery `pkg/version/types.go`), for `kubectl version` with a direct
//! connection to the server.

use serde_json::json;

use aggregated_apiserver::api::encode;

pub(crate) fn document() -> Vec<u8> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    encode::json(&json!({
        "major": env!("CARGO_PKG_VERSION_MAJOR"),
        "minor": env!("CARGO_PKG_VERSION_MINOR"),
        "gitVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommit": option_env!("GIT_COMMIT").unwrap_or(""),
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{architecture}", std::env::consts::OS),
    }))
}
