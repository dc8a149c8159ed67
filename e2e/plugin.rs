//! `kubectl gpu-metrics`: the plugin of kubectl.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{PLUGIN, Program, beside_server, output};

/// The output of a program with this folder first on the PATH; `Err` if it failed.
fn says(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", folder.display());
    output(Command::new(program).args(arguments).env("PATH", path))
}

fn installed() -> TempDir {
    let folder = TempDir::new().unwrap();
    let plugin = folder.path().join(PLUGIN);
    symlink(beside_server(PLUGIN), &plugin).unwrap();
    folder
}

#[test]
fn kubectl_finds_the_plugin_and_says_its_name() {
    let folder = installed();
    let kubectl = |arguments: &[&str]| says(folder.path(), "kubectl", arguments);
    let said = kubectl(&["gpu-metrics", "check", "--explain", "gm504"]).unwrap();
    assert!(
        said.starts_with("# GM504: ") && said.contains("91"),
        "{said}"
    );
    for words in [&["gpu-metrics"][..], &["gpu-metrics", "explain", "pods"]] {
        let said = kubectl(words).unwrap_err();
        assert!(said.contains("Usage: kubectl gpu-metrics"), "{said}");
    }
    let said = kubectl(&["gpu-metrics", "explian"]).unwrap_err();
    assert!(said.contains("'explain'"), "{said}");
}

#[test]
fn kubectl_completes_the_commands_of_the_plugin() {
    let folder = installed();
    let script = Program::run(Program::plugin(["completion", "kubectl"])).stdout;
    let path = folder.path().join("kubectl_complete-gpu_metrics");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (words, wanted) in [
        (&["exp"][..], "explain\n"),
        (&["top", "wo"], "workloads\n"),
        (&["top", "--no-h"], "--no-headers\n"),
    ] {
        let words = [&["__complete", "gpu-metrics"], words].concat();
        let said = says(folder.path(), "kubectl", &words).unwrap();
        assert!(said.starts_with(wanted), "{words:?}: {said}");
    }
}

#[test]
fn the_manifest_names_each_archive_with_its_sum() {
    let folder = TempDir::new().unwrap();
    for platform in ["darwin_arm64", "linux_amd64", "windows_amd64"] {
        let name = format!("kubectl-gpu_metrics_{platform}.tar.gz");
        std::fs::write(folder.path().join(name), platform).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/plugin/manifest.sh");
    let at = folder.path().to_str().unwrap();
    let said = says(
        folder.path(),
        script,
        &["v1.2.3", "https://example.org/v1.2.3", at],
    )
    .unwrap();
    let manifest: Value = serde_saphyr::from_str(&said).unwrap();
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let expected = [
        ("darwin", "arm64", "kubectl-gpu_metrics"),
        ("linux", "amd64", "kubectl-gpu_metrics"),
        ("windows", "amd64", "kubectl-gpu_metrics.exe"),
    ];
    assert_eq!(platforms.len(), expected.len(), "{said}");
    for (platform, (os, arch, program)) in platforms.iter().zip(expected) {
        let labels = &platform["selector"]["matchLabels"];
        assert_eq!((&labels["os"], &labels["arch"]), (&os.into(), &arch.into()));
        assert_eq!(platform["files"][0]["from"], program);
        assert_eq!(platform["bin"], program);
        let uri = platform["uri"].as_str().unwrap();
        let file = uri.strip_prefix("https://example.org/v1.2.3/").unwrap();
        let sum = says(folder.path(), "sha256sum", &[&format!("{at}/{file}")]).unwrap();
        assert!(
            sum.starts_with(platform["sha256"].as_str().unwrap()),
            "{said}"
        );
    }
}
