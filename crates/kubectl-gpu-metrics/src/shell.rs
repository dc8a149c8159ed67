//! Completions, generated from the command line.

use std::io::{self, Write};

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
