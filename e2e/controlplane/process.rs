//! The control plane's programs as child processes, and the watchman process, which
//! ends them when the test cannot.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// How many lines of a log's end are printed.
const TAIL_LINES: usize = 30;

/// Writes its process id into a file and becomes the program, so that the watchman
/// has the id of every program.
const LAUNCH: &str = r#"echo $$ >"$0" && exec "$@""#;

/// Waits until its standard input ends, which is when the test has ended. Then it ends, by
/// their ids, the remaining programs whose command lines still name the folder. Signals
/// that interrupt the test do not interrupt the watchman.
const WATCH: &str = r#"
trap '' HUP INT TERM
read -r _
for file in "$1"/pids/*; do
    pid=$(cat "$file" 2>/dev/null) || continue
    grep -qF "$1" "/proc/$pid/cmdline" 2>/dev/null || continue
    kill -9 "$pid"
done
rm -rf "$1"
"#;

/// A running program, ended on drop.
#[derive(Debug)]
pub(crate) struct Part {
    name: &'static str,
    process: Child,
    log: PathBuf,
    pid: PathBuf,
}

impl Part {
    /// Starts a program whose command line names `dir`. A restarted program appends
    /// to the same log.
    pub(crate) fn start(
        dir: &Path,
        name: &'static str,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self, String> {
        let error = |error| format!("{name} cannot be started: {error}");
        let log = dir.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log);
        let out = out.map_err(error)?;
        let pid = dir.join("pids").join(name);
        let process = Command::new("sh")
            .args(["-c", LAUNCH])
            .args([&pid, program])
            .args(arguments)
            // No user's configuration is read, and the home folder is not changed.
            .env("HOME", dir)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(error)?)
            .stderr(out)
            .spawn()
            .map_err(error)?;
        Ok(Self {
            name,
            process,
            log,
            pid,
        })
    }

    /// The message how it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        match self.process.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("{} ended ({status})", self.name)),
            Err(error) => Some(format!("{}: {error}", self.name)),
        }
    }

    /// Kills it and waits for its end.
    pub(crate) fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.pid);
    }

    /// The last lines of its log, under its name.
    pub(crate) fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(TAIL_LINES);
        format!("--- {}\n{}\n", self.name, lines[last..].join("\n"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the programs of a folder and removes the folder once this process has ended
/// or the value is dropped: a value in a `static` is never dropped, and a killed
/// process drops nothing.
#[derive(Debug)]
pub(crate) struct Watchman {
    process: Child,
    /// Ends with this process in any case.
    alive: Option<ChildStdin>,
}

impl Watchman {
    /// Starts a watchman for a folder without processes.
    pub(crate) fn post(dir: &Path) -> Result<Self, String> {
        let error = |error| format!("no watchman over {}: {error}", dir.display());
        std::fs::create_dir(dir.join("pids")).map_err(error)?;
        let mut process = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(error)?;
        let alive = process.stdin.take();
        Ok(Self { process, alive })
    }

    /// Ends the programs now and waits for that.
    pub(crate) fn dismiss(&mut self) {
        self.alive = None;
        let _ = self.process.wait();
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.dismiss();
    }
}
