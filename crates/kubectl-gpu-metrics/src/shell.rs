//! Completions and man pages, generated from the command line for packagers.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::Failure;

/// Completions of kubectl-gpu_metrics for a shell, or for kubectl: a script to be saved
/// as kubectl_complete-gpu_metrics on the PATH.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics completion kubectl > ~/.local/bin/kubectl_complete-gpu_metrics
  kubectl-gpu_metrics completion zsh > ~/.zfunc/_kubectl-gpu_metrics
  source <(kubectl-gpu_metrics completion bash)")]
pub struct CompletionArgs {
    /// Shell
    #[arg(value_parser = ["bash", "elvish", "fish", "kubectl", "powershell", "zsh"])]
    shell: String,
}

/// A man page for each command.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory that the pages are written to; it must exist
    dir: PathBuf,
}

/// The end of the script: calls bash's completion function for `plugin`, as bash would.
const CALL: &str = r#"
COMP_WORDS=(plugin "$@") COMP_CWORD=$#
_plugin plugin "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}" :4
"#;

pub(super) fn completion(args: &CompletionArgs, command: Command) -> Result<(), Failure> {
    let text = match args.shell.parse() {
        Ok(shell) => generated(shell, command, "kubectl-gpu_metrics"),
        Err(_) => for_kubectl(command),
    };
    // A closed output is ignored.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn generated(shell: Shell, mut command: Command, name: &str) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The script for kubectl. kubectl runs it with the words of the line, the last one
/// incomplete, and reads candidates and a directive: 4 means no files (kubernetes/kubectl
/// `pkg/cmd/plugin/plugin_completion.go`). The candidates are those of bash.
fn for_kubectl(command: Command) -> String {
    let functions = generated(Shell::Bash, command, "plugin");
    format!("#!/usr/bin/env bash\n{functions}{CALL}")
}

pub(super) fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    let written = clap_mangen::generate_to(command, &args.dir);
    written.map_err(|error| Failure::Failed(format!("{}: {error}", args.dir.display())))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Line;

    #[test]
    fn every_command_has_a_man_page() {
        let dir = tempfile::TempDir::new().unwrap();
        let args = ManArgs {
            dir: dir.path().to_owned(),
        };
        man(&args, Line::command()).unwrap();
        for name in ["", "-check", "-explain", "-top"] {
            let page = dir.path().join(format!("kubectl-gpu_metrics{name}.1"));
            let text = std::fs::read_to_string(&page).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{}", page.display());
        }
    }
}
