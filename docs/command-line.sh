#!/bin/sh
# Prints docs/command-line.md: what the server says of its flags, and the plugin of
# kubectl beside it of its commands.
#
#   docs/command-line.sh target/debug/gpu-metrics-apiserver > docs/command-line.md
set -eu
plugin=$(dirname "$1")/kubectl-gpu_metrics
page() {
	printf '\n## %s\n\n```text\n' "$1"
	shift
	"$@" --help | sed 's/ *$//'
	printf '```\n'
}
cat <<END
# Command line

Written from the programs' own \`--help\` by \`make command-line\`. The server has flags only. The commands are those of
\`kubectl gpu-metrics\`, which is the program \`kubectl-gpu_metrics\`. Exit codes stand with the commands that have any
but 0 and 1.
END
page "The server" "$1"
for command in $("$plugin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
	page "$command" "$plugin" "$command"
done
