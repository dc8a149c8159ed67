//! Messages for invalid input: the place of the mistake, its remedy, and the exit
//! code. The crates of each subject test each message.

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
    let missing = dir.path().join("missing.yaml").display().to_string();
    let below = format!("{config}/below");
    for (command, code, words) in [
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
    ] {
        let told = format!("{command:?}");
        let end = Program::run(command);
        end.assert_orderly();
        assert_eq!(end.code, Some(code), "{told}: {end:?}");
        for word in words {
            assert!(end.stderr.contains(word), "no {word:?} in {}", end.stderr);
        }
        assert!(end.stdout.is_empty(), "{end:?}");
    }
}
