//! The program under test as a child process: its output, and its end.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The polling interval of waits.
const LOOK: Duration = Duration::from_millis(200);

/// The server.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_gpu-metrics-apiserver");

/// The file name by which kubectl finds its plugin.
pub(crate) const PLUGIN: &str = "kubectl-gpu_metrics";

/// A program of another package of the workspace.
pub(crate) fn beside_server(name: &str) -> PathBuf {
    let program = Path::new(SERVER).with_file_name(name);
    assert!(
        program.is_file(),
        "{} is missing: make programs builds it",
        program.display()
    );
    program
}

/// A running program, ended on drop.
#[derive(Debug)]
pub(crate) struct Program {
    process: Child,
    begun: Instant,
    stdout: Heard,
    stderr: Heard,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl End {
    /// Asserts that it did not panic.
    pub(crate) fn assert_orderly(&self) {
        for sign in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!self.stderr.contains(sign), "{}", self.stderr);
        }
    }
}

impl Program {
    /// The command that runs the server, without any settings.
    pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
        Self::binary(Path::new(SERVER), arguments)
    }

    /// The command that runs the plugin of kubectl, without any settings.
    pub(crate) fn plugin<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
        Self::binary(&beside_server(PLUGIN), arguments)
    }

    /// The command that runs a demonstration on a free port.
    pub(crate) fn demo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Self::binary(&beside_server("demo"), ["--port=0"]);
        command.args(arguments);
        command
    }

    fn binary<S: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program);
        command.args(arguments);
        for name in ["RUST_LOG", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command
    }

    /// The flags by which a metrics server accesses a cluster; prometheus-adapter has them too.
    pub(crate) fn kubeconfig_flags(kubeconfig: &Path) -> [String; 3] {
        let file = kubeconfig.display();
        ["lister", "authentication", "authorization"]
            .map(|name| format!("--{name}-kubeconfig={file}"))
    }

    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self {
            stdout: Heard::listen(process.stdout.take().unwrap()),
            stderr: Heard::listen(process.stderr.take().unwrap()),
            process,
            begun: Instant::now(),
        }
    }

    /// Runs a command that ends by itself, within seconds on an idle machine.
    pub(crate) fn run(command: Command) -> End {
        Self::start(command).await_end(Duration::from_secs(240))
    }

    /// The time since its start.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.so_far()
    }

    /// Its resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        memory_kib(self.id(), "VmRSS:")
    }

    /// Waits until `find` finds something in its standard output.
    pub(crate) fn await_stdout<T>(
        &self,
        what: &str,
        within: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> T {
        let look = || find(&self.stdout.so_far()).ok_or_else(|| self.account());
        eventually(what, within, look)
    }

    /// Waits until `find` finds something in its standard error.
    pub(crate) fn find_in_stderr<T>(
        &self,
        what: &str,
        within: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> T {
        let look = || find(&self.stderr.so_far()).ok_or_else(|| self.account());
        eventually(what, within, look)
    }

    /// Waits until its log has these words.
    pub(crate) fn await_stderr(&self, words: &str) {
        let found = |said: &str| said.contains(words).then_some(());
        self.find_in_stderr(words, Duration::from_secs(120), found);
    }

    fn account(&self) -> String {
        format!("{}\n{}", self.stdout.so_far(), self.stderr.so_far())
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal by its short name.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Waits for its end, and for the rest of its output.
    pub(crate) fn await_end(mut self, within: Duration) -> End {
        let process = &mut self.process;
        let said = || format!("{}\n{}", self.stdout.so_far(), self.stderr.so_far());
        let status = eventually("the end of the program", within, || {
            process.try_wait().unwrap().ok_or_else(said)
        });
        End {
            code: status.code(),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The output of a pipe so far.
#[derive(Debug)]
struct Heard {
    text: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Heard {
    fn listen(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&text);
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut heard = heard.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Self {
            text,
            listener: Some(listener),
        }
    }

    fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// The whole output: the writer has ended.
    fn all(&mut self) -> String {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
        self.so_far()
    }
}

/// The port in the log of a server.
pub(crate) fn listening(server: &Program) -> u16 {
    server.find_in_stderr("the address", Duration::from_secs(120), |said| {
        let line = said.lines().find(|line| line.contains("listening"))?;
        let (_, rest) = line.split_once("address=[::]:")?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// Polls until there is a result. On a timeout the last error is printed.
pub(crate) fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        let looked = Instant::now();
        match look() {
            Ok(found) => return found,
            Err(instead) if begun.elapsed() > within => {
                panic!("{what} did not come within {within:?}; instead: {instead}")
            }
            // A command that takes a second leaves the cores to others for as long.
            Err(_) => std::thread::sleep(LOOK.max(looked.elapsed())),
        }
    }
}

/// What [`eventually`] looks for, and what there is instead.
pub(crate) fn ok_if(is_right: bool, found: &impl std::fmt::Debug) -> Result<(), String> {
    match is_right {
        true => Ok(()),
        false => Err(format!("{found:?}")),
    }
}

/// What [`eventually`] looks for: what is found, if it is right.
pub(crate) fn found_if<T: std::fmt::Debug>(
    found: T,
    is_right: impl FnOnce(&T) -> bool,
) -> Result<T, String> {
    match is_right(&found) {
        true => Ok(found),
        false => Err(format!("{found:?}")),
    }
}

/// [`eventually`] for requests in the runtime of a test.
pub(crate) async fn in_time<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(instead) if begun.elapsed() > within => {
                panic!("{what} did not come within {within:?}; instead: {instead}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Runs another program. Returns its output, with its errors too if it failed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?} ({error}): make prerequisites installs what is missing")
    });
    let [said, errors] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    match output.status.success() {
        true => Ok(said),
        false => Err(said + &errors),
    }
}

/// A program of the folder that `e2e/SCRIPT/build.sh` fills.
///
/// # Errors
///
/// The error for a missing program, with the remedy.
pub(crate) fn built(script: &str, name: &str, remedy: &str) -> Result<PathBuf, String> {
    static FOLDERS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folders.entry(script.to_owned()).or_insert_with(|| {
        let path = format!("{}/e2e/{script}/build.sh", env!("CARGO_MANIFEST_DIR"));
        let output = Command::new(&path).arg("where").output();
        let output = output.unwrap_or_else(|error| panic!("{path}: {error}"));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end())
    });
    let file = folder.join(name);
    match file.is_file() {
        true => Ok(file),
        false => Err(format!("{} is missing: {remedy}", file.display())),
    }
}

/// Sends a signal by its short name to a process.
pub(crate) fn signal(id: u32, name: &str) {
    let kill = format!("kill -{name} {id}");
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success(), "{kill}: {status}");
}

/// A size of a process, from the kernel: `VmRSS:`, `VmHWM:`.
pub(crate) fn memory_kib(id: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}
