//! The paths of the control plane's programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The remedy for a missing program.
const REMEDY: &str = "these tests start the real one: make controlplane";

/// The folder of envtest's kube-apiserver, etcd and kubectl. Its programs take
/// precedence over built ones.
pub(crate) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The file of a program.
///
/// # Errors
///
/// The error for a missing program.
pub(crate) fn find(name: &str) -> Result<PathBuf, String> {
    let assets = std::env::var_os(ASSETS).map(|dir| Path::new(&dir).join(name));
    if let Some(asset) = assets.filter(|asset| asset.is_file()) {
        return Ok(asset);
    }
    let built = built()?.join(name);
    if built.is_file() {
        return Ok(built);
    }
    Err(format!("{} is missing, and {REMEDY}", built.display()))
}

/// The folder that `make controlplane` fills. The script has its name.
fn built() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/controlplane/build.sh");
        let output = Command::new("sh").args([script, "where"]).output();
        let output = output.map_err(|error| format!("sh {script}: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("sh {script} where: {said}"));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(PathBuf::from(said.trim_end()))
    });
    folder.as_deref().map_err(Clone::clone)
}
