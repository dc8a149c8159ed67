//! `demo` for a new user: started, queried by kubectl, ended.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Program, output};

/// How long a process may take to start beside other tests.
const START: Duration = Duration::from_secs(60);

/// The promised time to first values.
const FIRST_VALUES: Duration = Duration::from_secs(15);

/// The promised time from Ctrl-C to the end.
const END: Duration = Duration::from_secs(5);

/// A demonstration on a free port.
fn demo() -> Command {
    Program::demo::<&str>([])
}

/// Waits for the printed address. Returns its port.
fn port(demo: &Program) -> u16 {
    demo.await_stdout("the address", START, |said| {
        let (_, rest) = said.split_once("https://127.0.0.1:")?;
        let (port, _) = rest.split_once('\n')?;
        port.parse().ok()
    })
}

/// Waits for the printed commands, which come with the first values.
fn commands(demo: &Program) -> Vec<String> {
    let _ = port(demo);
    demo.await_stdout("the first values", FIRST_VALUES, |said| {
        let (_, printed) = said.split_once("try, in another terminal:")?;
        let (printed, _) = printed.split_once("Ctrl-C ends it.")?;
        let commands = printed.lines().filter_map(|line| line.strip_prefix("  "));
        let commands = commands.filter(|line| !line.starts_with('#'));
        Some(commands.map(str::to_owned).collect())
    })
}

/// Ends it with a signal, as a terminal or a supervisor does.
fn end_by(demo: Program, signal: &str) {
    let port = port(&demo);
    // A connected client does not delay the end.
    let _idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    demo.signal(signal);
    let end = demo.await_end(END);
    assert_eq!(end.code, Some(0), "{end:?}");
    end.assert_orderly();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a printed command, or one with other words. Returns its output.
fn said(command: &str) -> Result<String, String> {
    output(Command::new("sh").args(["-c", command]))
}

#[test]
fn every_printed_command_answers_as_printed() {
    let dir = TempDir::new().unwrap();
    let mut command = demo();
    command.arg("--dir").arg(dir.path().join("it's new"));
    let demo = Program::start(command);
    let commands = commands(&demo);
    let (own, kubectl): (Vec<_>, Vec<_>) = commands
        .iter()
        .partition(|command| !command.starts_with("kubectl "));
    assert!(
        (3..=4).contains(&kubectl.len()) && own.len() == 6,
        "{commands:?}"
    );
    for command in kubectl {
        let answer: Value = serde_json::from_str(&said(command).unwrap()).unwrap();
        let items = answer["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{command}: {answer}");
        assert!(
            items.iter().all(|item| item["value"].is_string()),
            "{answer}"
        );
    }
    for (command, expected) in own.iter().zip([
        "REPORTING",
        "MEM BW %",
        "errors: 0",
        "What the controller wrote",
        "held GPU-hours were idle",
        "✓ best",
    ]) {
        let said = said(command).unwrap();
        assert!(said.contains(expected), "{command}: {said}");
    }
    in_other_words(own[0]);
    assert_eq!(demo.stderr(), "", "a log, and nothing is wrong");
    end_by(demo, "INT");
    // A directory of the user is not removed.
    assert!(dir.path().join("it's new/kubeconfig").exists());
}

/// Kinds by other names, and typing errors.
fn in_other_words(explain: &str) {
    let (program, words) = explain.split_once(" explain deploy ").unwrap();
    let (object, rest) = words.split_once(' ').unwrap();
    let (metric, kubeconfig) = rest.split_once(' ').unwrap();
    let (namespace, name) = object.split_once('/').unwrap();
    let run = |words: &str| said(&format!("{program} {words} {kubeconfig}"));
    for words in [
        format!("explain deployments.apps {name} {metric} -n {namespace}"),
        format!("explain ns {namespace} {metric}"),
        format!("explain external cluster_{metric} -n {namespace}"),
    ] {
        let said = run(&words).unwrap();
        assert!(said.contains("REPORTING"), "{words}: {said}");
    }
    let said = run(&format!("explain deploymnt {object} {metric}")).unwrap_err();
    assert!(
        said.contains("this cluster has no kind deploymnt"),
        "{said}"
    );
    let said = run("check -A").unwrap_err();
    for told in ["metrics only (demo)", "GM501", "GM504"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn only_the_owner_reads_the_temporary_directory_and_it_is_removed() {
    for signal in ["INT", "TERM"] {
        let parent = TempDir::new().unwrap();
        let mut command = demo();
        command.env("TMPDIR", parent.path());
        let demo = Program::start(command);
        // The same before the first values.
        port(&demo);
        let [made] = &entries(parent.path())[..] else {
            panic!("{:?}", entries(parent.path()));
        };
        assert_eq!(mode(made), 0o700);
        let mut names = entries(made);
        names.sort();
        let wanted = [
            ".demo",
            "ca.crt",
            "client.crt",
            "client.key",
            "config.yaml",
            "hpa.yaml",
            "kubeconfig",
        ];
        assert_eq!(names, wanted.map(|name| made.join(name)));
        assert!(names.iter().all(|path| mode(path) == 0o600), "{names:?}");
        end_by(demo, signal);
        assert!(entries(parent.path()).is_empty());
    }
}
