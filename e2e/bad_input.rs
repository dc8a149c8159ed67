//! Messages for invalid input: the place of the mistake, its remedy, and the exit
//! code.

use std::path::Path;

use tempfile::TempDir;

use crate::program::{End, Program};

/// Wrong use of the command line or the configuration.
const USAGE: i32 = 2;

/// Valid use that failed.
const FAILURE: i32 = 1;

/// Runs the program, and checks the exit code, the message, and that it did not
/// panic.
fn assert_refused(arguments: &[&str], code: i32, words: &[&str]) {
    let end = Program::run(Program::command(arguments));
    assert_told(&end, code, words);
}

fn assert_told(end: &End, code: i32, words: &[&str]) {
    end.assert_orderly();
    assert_eq!(end.code, Some(code), "{end:?}");
    for word in words {
        assert!(end.stderr.contains(word), "no {word:?} in {}", end.stderr);
    }
    assert!(end.stdout.is_empty(), "{end:?}");
}

/// Runs a demonstration with this configuration.
fn configured(yaml: &str) -> (End, String) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("wrong.yaml");
    std::fs::write(&file, yaml).unwrap();
    let file = file.display().to_string();
    let command = Program::command(["demo", "--port", "0", "--config", &file]);
    (Program::run(command), file)
}

#[test]
fn a_wrong_command_line_is_refused_with_the_remedy() {
    let range = "write a whole number";
    for (arguments, words) in [
        (
            &[][..],
            &["no address of Prometheus", "--prometheus-url"][..],
        ),
        (&["--bogus"], &["'--bogus'", "--help"]),
        (&["demo", "--bogus"], &["'--bogus'", "--help"]),
        (&["demonstrate"], &["'demonstrate'", "--help"]),
        (
            &["demo", "--prometheus-url", "localhost:9090"],
            &["--prometheus-url", "write http://host:port"],
        ),
        (
            &["demo", "--port=https"],
            &["--port", "https", range, "from 0 to 65535"],
        ),
        (
            &["demo", "--port=65536"],
            &["--port", "65536", range, "from 0 to 65535"],
        ),
        (
            &["demo", "--gpus=many"],
            &["--gpus", "many", range, "from 8 to 4096"],
        ),
        (&["demo", "--gpus=3"], &["--gpus", range, "from 8 to 4096"]),
        (
            &["demo", "--seed=-1"],
            &["--seed", "-1", range, "from 0 to 18446744073709551615"],
        ),
        (
            &["demo", "--gpus=8", "--prometheus-url=http://localhost:9"],
            &["--gpus", "--prometheus-url", "cannot be used"],
        ),
    ] {
        assert_refused(arguments, USAGE, words);
    }
}

/// The crate `configuration` tests each message.
#[test]
fn a_wrong_configuration_is_shown_with_its_file_and_line() {
    for (yaml, words) in [
        (
            "gpu:\n  windw: 1m\n",
            [":2:", "`windw`", "window, maxWindow"],
        ),
        ("gpu:\n  window: [1m]\n", [":2:11: ", "gpu.window", ""]),
        ("gpu:\n  window: soon\n", [":2:11", "gpu.window", "30s"]),
    ] {
        let (end, file) = configured(yaml);
        assert_told(&end, USAGE, &[&words[..], &[&file]].concat());
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing.yaml");
    let text = |path: &Path| path.display().to_string();
    for wrong in [text(&missing), text(dir.path())] {
        let words = [wrong.as_str(), "cannot be read", "check the path"];
        assert_refused(&["demo", "--config", &wrong], USAGE, &words);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named_with_the_flag_that_chooses_another() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    for wrong in [file.clone(), file.join("below")] {
        let wrong = wrong.display().to_string();
        let arguments = ["demo", "--port", "0", "--dir", &wrong];
        assert_refused(&arguments, FAILURE, &["cannot write", &wrong, "--dir"]);
    }
}
