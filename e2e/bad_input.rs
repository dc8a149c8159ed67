//! Messages for invalid input: the place of the mistake, its remedy, and the exit
//! code. The crates of each subject test each message.

use tempfile::TempDir;

use crate::program::Program;

/// Wrong use of the command line or the configuration.
const USAGE: i32 = 2;

/// Valid use that failed.
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
    let (range, port) = ("write a whole number", "from 0 to 65535");
    for (arguments, code, words) in [
        (&[][..], USAGE, &["no address", "--prometheus-url"][..]),
        (&["--bogus"], USAGE, &["'--bogus'", "--help"]),
        (&["demonstrate"], USAGE, &["'demonstrate'", "--help"]),
        (
            &["demo", "--prometheus-url", "localhost:9090"],
            USAGE,
            &["--prometheus-url", "write http://host:port"],
        ),
        (&["demo", "--port=65536"], USAGE, &["65536", range, port]),
        (
            &["demo", "--gpus=8", "--prometheus-url=http://localhost:9"],
            USAGE,
            &["--gpus", "--prometheus-url", "cannot be used"],
        ),
        (
            &["demo", "--port=0", "--config", &config],
            USAGE,
            &[&config, ":2:", "`windw`", "window, maxWindow"],
        ),
        (
            &["demo", "--config", &missing],
            USAGE,
            &[&missing, "cannot be read", "check the path"],
        ),
        (
            &["demo", "--port=0", "--dir", &below],
            FAILURE,
            &["cannot write", &below, "--dir"],
        ),
    ] {
        let end = Program::run(Program::command(arguments));
        end.assert_orderly();
        assert_eq!(end.code, Some(code), "{arguments:?}: {end:?}");
        for word in words {
            assert!(end.stderr.contains(word), "no {word:?} in {}", end.stderr);
        }
        assert!(end.stdout.is_empty(), "{end:?}");
    }
}
