//! The server with a control plane and without GPUs, for its messages and behaviour
//! with invalid input.

use std::path::Path;

use tempfile::TempDir;

use super::asking::{Came, Way};
use super::lab::listening;
use crate::program::Program;
use crate::prometheus::free_port;

/// A running server with a port for operators. Fields end from top to bottom.
#[derive(Debug)]
pub(super) struct Stand {
    pub(super) server: Program,
    pub(super) port: u16,
    operators: Way,
}

impl Stand {
    /// Starts a server; `flags` set the source of its certificates.
    pub(super) fn start(kubeconfigs: [&Path; 3], flags: &[&str]) -> Self {
        let plain = free_port();
        let mut command = Program::command(["--secure-port=0"]);
        // A port without a listener.
        command.arg("--prometheus-url=http://127.0.0.1:9");
        command.arg(format!("--metrics-bind-address=127.0.0.1:{plain}"));
        let names = ["lister", "authentication", "authorization"];
        for (name, kubeconfig) in names.into_iter().zip(kubeconfigs) {
            command.arg(format!("--{name}-kubeconfig"));
            command.arg(kubeconfig);
        }
        command.args(flags);
        let server = Program::start(command);
        Self {
            port: listening(&server),
            server,
            operators: Way::plain(plain),
        }
    }

    /// Waits until a check fails with these words. Returns its text.
    pub(super) async fn await_failing(&self, name: &str, words: &[&str]) -> String {
        let path = format!("/readyz/{name}");
        let failing = |came: &Came| match came {
            Came::Status(500, said) => {
                let is_it = words.iter().all(|word| said.contains(word));
                is_it.then(|| said.clone())
            }
            _ => None,
        };
        self.operators.until(&path, &[], failing).await
    }

    /// Waits until a check passes, or `readyz` with an empty name.
    pub(super) async fn await_well(&self, name: &str) {
        let path = format!("/readyz/{name}");
        let path = path.trim_end_matches('/');
        self.operators.until_code(path, &[], 200).await;
    }

    /// The names of the failing readiness checks.
    pub(super) async fn unready(&self) -> Vec<String> {
        self.operators.until("/readyz?verbose", &[], failing).await
    }

    /// Waits until exactly these checks fail.
    pub(super) async fn await_unready(&self, names: &[&str]) {
        let alone = |came: &Came| failing(came).filter(|failing| *failing == names);
        self.operators.until("/readyz?verbose", &[], alone).await;
    }
}

/// The names of the failing readiness checks in an answer.
fn failing(came: &Came) -> Option<Vec<String>> {
    let (Came::Body(said) | Came::Status(_, said)) = came else {
        return None;
    };
    let failing = said.lines().filter(|line| line.contains("failed: "));
    let name = |line: &str| {
        let name = line.strip_prefix("[-]")?.split_whitespace().next()?;
        Some(name.to_owned())
    };
    Some(failing.filter_map(name).collect())
}

/// A folder with a server certificate that clients do not verify: `--cert-dir`.
pub(super) fn certificates() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let flag = format!("--cert-dir={}", dir.path().display());
    (dir, flag)
}
