//! The paths of the control plane's programs.

use std::path::{Path, PathBuf};

use crate::program::built;

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
    match assets.filter(|asset| asset.is_file()) {
        Some(asset) => Ok(asset),
        None => built("controlplane", name, "make controlplane"),
    }
}
