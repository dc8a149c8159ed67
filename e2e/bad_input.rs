//! Messages for invalid input: the place of the mistake, its remedy, and the exit
//! code. The crates of each subject test each message.

use std::net::TcpListener;

use tempfile::TempDir;

use crate::program::Program;

/// The command line is not understood.
const USAGE: i32 = 2;

/// All other errors.
const FAILURE: i32 = 1;

#[test]
fn wrong_input_is_refused_with_its_place_and_its_remedy() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = file("wrong.yaml", "gpu:\n  windw: 1m\n");
    let existing = file("config.yaml", "gpu: {window: 2m}");
    let folder = dir.path().display().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let temporary = TempDir::new().unwrap();
    let missing = dir.path().join("missing.yaml").display().to_string();
    let below = format!("{config}/below");
    for (mut command, code, words) in [
        (
            Program::command(["serve"]),
            FAILURE,
            &["no address", "--prometheus-url"][..],
        ),
        (
            Program::command(["--bogus"]),
            USAGE,
            &["'--bogus'", "--help"],
        ),
        (
            Program::command(["--secure-port=65536"]),
            USAGE,
            &["65536", "0..=65535"],
        ),
        (
            Program::plugin(["chekc"]),
            USAGE,
            &["'chekc'", "'check'", "--help"],
        ),
        (
            Program::demo(["--prometheus-url", "localhost:9090"]),
            USAGE,
            &["--prometheus-url", "write http://host:port"],
        ),
        (
            Program::demo(["--port=65536"]),
            USAGE,
            &["65536", "0..=65535"],
        ),
        (
            Program::demo(["--gpus=8", "--prometheus-url=http://localhost:9"]),
            USAGE,
            &["--gpus", "--prometheus-url", "cannot be used"],
        ),
        (
            Program::demo(["--config", &config]),
            USAGE,
            &[&config, ":2:", "`windw`", "window, maxWindow"],
        ),
        (
            Program::demo(["--config", &missing]),
            USAGE,
            &[&missing, "cannot be read", "check the path"],
        ),
        (
            Program::demo(["--dir", &below]),
            FAILURE,
            &["cannot write", &below, "--dir"],
        ),
        (
            Program::demo(["--dir", &folder, "--config", &existing]),
            FAILURE,
            &["config.yaml", "--dir"],
        ),
        (
            Program::demo([format!("--port={port}")]),
            FAILURE,
            &[&port, "--port"],
        ),
    ] {
        let told = format!("{command:?}");
        command.env("TMPDIR", temporary.path());
        let end = Program::run(command);
        end.assert_orderly();
        assert_eq!(end.code, Some(code), "{told}: {end:?}");
        for word in words {
            assert!(end.stderr.contains(word), "no {word:?} in {}", end.stderr);
        }
        assert!(end.stdout.is_empty(), "{end:?}");
        // Nothing stays there.
        let mut left = temporary.path().read_dir().unwrap();
        assert!(left.next().is_none(), "{told}");
    }
    // A file of the user is not overwritten.
    let text = std::fs::read_to_string(&existing).unwrap();
    assert_eq!(text, "gpu: {window: 2m}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 2);
}
