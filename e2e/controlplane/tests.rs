//! Properties of the control plane that other tests rely on.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::process::{Part, Watchman};
use super::{ControlPlane, Extent, parts};
use crate::program::eventually;

/// A generous limit for operations of some seconds.
const SOON: Duration = Duration::from_secs(120);

#[test]
fn kubectl_and_the_server_are_of_the_release_that_go_mod_names() {
    let plane = &ControlPlane::lend(Extent::CLUSTER);
    let versions = plane.kubectl(&["version", "--output=json"]);
    let versions: Value = serde_json::from_str(&versions).unwrap();
    for side in ["clientVersion", "serverVersion"] {
        let found = versions[side]["gitVersion"].as_str().unwrap();
        if std::env::var_os(parts::ASSETS).is_some() {
            assert!(found.starts_with("v1."), "somebody's choice: {found}");
            continue;
        }
        let line = format!("k8s.io/kubernetes {found}\n");
        assert!(include_str!("kubernetes/go.mod").contains(&line), "{line}");
    }
}

#[test]
fn nothing_is_left_of_an_ended_control_plane() {
    let plane = ControlPlane::start(Extent::Api);
    let dir = plane.dir().to_owned();
    assert!(plane.logs().contains("--- kube-apiserver\n"));
    assert_eq!(running(&dir).len(), 3, "etcd, kube-apiserver, the watchman");
    drop(plane);
    assert_eq!(running(&dir), Vec::<String>::new());
    assert!(!dir.exists());
}

#[test]
fn the_watchman_ends_the_programs_of_a_killed_test() {
    let dir = TempDir::new().unwrap();
    let mut watchman = Watchman::post(dir.path()).unwrap();
    let log = dir.path().join("left.log").display().to_string();
    let tail = Path::new("/usr/bin/tail");
    let mut left = Part::start(dir.path(), "left", tail, &["-f".to_owned(), log]).unwrap();
    let mut stranger = Stranger(Command::new("sleep").arg("600").spawn().unwrap());
    // A stale id of a program; the process with this id is another one.
    let stale = dir.path().join("pids").join("stale");
    std::fs::write(stale, stranger.0.id().to_string()).unwrap();
    let command = format!("/proc/{}/cmdline", left.id());
    eventually("the launched program", SOON, || {
        let line = std::fs::read_to_string(&command).unwrap_or_default();
        line.starts_with("/usr/bin/tail").then_some(()).ok_or(line)
    });
    watchman.dismiss();
    eventually("its end", SOON, || left.ended().ok_or_else(String::new));
    assert!(stranger.0.try_wait().unwrap().is_none());
    assert!(!dir.path().exists());
}

/// A process that the watchman must not end.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command lines of processes that contain a folder's name.
fn running(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|entry| {
        let line = std::fs::read(entry.unwrap().path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(&dir)).collect()
}
