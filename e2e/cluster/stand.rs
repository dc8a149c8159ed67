//! The server with a control plane and without GPUs, for its messages and behaviour
//! with invalid input.

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::asking::{Came, Way};
use super::lab::{PATIENCE, listening};
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

    /// The answer of a readiness check.
    pub(super) async fn check(&self, name: &str) -> Came {
        self.operators.get(&format!("/readyz/{name}")).await
    }

    /// Waits until a check fails with these words. Returns its text.
    pub(super) async fn await_failing(&self, name: &str, words: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let came = self.check(name).await;
            if let Came::Status(500, said) = &came
                && words.iter().all(|word| said.contains(word))
            {
                return said.clone();
            }
            self.patient(begun, &format!("{name} with {words:?}"), &came);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until a check passes, or `readyz` with an empty name.
    pub(super) async fn await_well(&self, name: &str) {
        let begun = Instant::now();
        let path = format!("/readyz/{name}");
        loop {
            let came = self.operators.get(path.trim_end_matches('/')).await;
            if came.code() == Some(200) {
                return;
            }
            self.patient(begun, name, &came);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The names of the failing readiness checks.
    pub(super) async fn unready(&self) -> Vec<String> {
        let (Came::Body(said) | Came::Status(_, said)) =
            self.operators.get("/readyz?verbose").await
        else {
            panic!("no answer");
        };
        let failing = said.lines().filter(|line| line.contains("failed: "));
        let name = |line: &str| {
            let name = line.strip_prefix("[-]")?.split_whitespace().next()?;
            Some(name.to_owned())
        };
        failing.filter_map(name).collect()
    }

    /// Waits until exactly these checks fail.
    pub(super) async fn await_unready(&self, names: &[&str]) {
        let begun = Instant::now();
        while self.unready().await != names {
            let came = self.operators.get("/readyz?verbose").await;
            self.patient(begun, &format!("{names:?} alone"), &came);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn patient(&self, begun: Instant, what: &str, came: &Came) {
        let log = || self.server.stderr();
        assert!(begun.elapsed() < PATIENCE, "{what}: {came:?}\n{}", log());
    }
}

/// A folder with a server certificate that clients do not verify: `--cert-dir`.
pub(super) fn certificates() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let flag = format!("--cert-dir={}", dir.path().display());
    (dir, flag)
}
