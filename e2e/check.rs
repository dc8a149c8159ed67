//! `check` with files: its exit codes, which are the same in every format.

use crate::program::{End, Program};

/// Valid, with a target of 50.
const HPA: &str = kubectl_gpu_metrics::check::SAMPLE_HPA;

fn run(words: &[&str]) -> End {
    let end = Program::run(Program::plugin([&["check"], words].concat()));
    end.assert_orderly();
    end
}

#[test]
fn the_exit_code_of_check_is_the_same_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let well = file("well.yaml", HPA);
    let high = file("high.yaml", &HPA.replace("50", "95"));
    let rules = file(
        "rules.yaml",
        "rules: [{seriesQuery: a, metricsQuery: sum(a) by (<<.GroupBy>>)}]\n",
    );
    let broken = file("broken.yaml", "a: [");
    let other = file("other.yaml", "kind: Secret\n");
    for format in ["text", "json"] {
        for (words, code) in [
            (vec![well.as_str()], 0),
            (vec![&high], 1),
            (vec![&well, &high], 1),
            (vec![&rules], 0),
            (vec![&rules, "--fail-on=warning"], 1),
            (vec![&broken], 3),
            (vec!["nowhere.yaml"], 3),
            (vec![&broken, &well], 3),
            (vec![&broken, &high], 1),
            (vec![&other], 3),
        ] {
            let end = run(&[&words[..], &["--offline", "-o", format]].concat());
            assert_eq!(end.code, Some(code), "{format} {words:?}: {end:?}");
        }
        let end = run(&["--kubeconfig=nowhere", "-A", "-o", format]);
        assert_eq!(end.code, Some(3), "{end:?}");
    }
    let end = run(&["nowhere.yaml", &broken, &high, "--offline"]);
    for said in [
        "Skipped: nowhere.yaml",
        &format!("Skipped: {broken}"),
        &format!("in {high}\n"),
    ] {
        assert!(end.stdout.contains(said), "{end:?}");
    }
    for words in [
        &["--offline"][..],
        &["--pre", &well],
        &["-A", "-n", "a"],
        &["--explain", "GM999"],
        &["-o", "xml"],
    ] {
        assert_eq!(run(words).code, Some(2), "{words:?}");
    }
}
