#!/bin/sh
# Prints docs/command-line.md: what the server says of its flags, and the plugin of
# kubectl beside it of its commands. Flags that several have are printed once. Columns and
# examples are those of docs/commands.md.
#
#   docs/command-line.sh target/debug/gpu-metrics-apiserver > docs/command-line.md
set -eu
plugin=$(dirname "$1")/kubectl-gpu_metrics
skipped=Examples
page() {
	printf '\n## %s\n\n```text\n' "$1"
	shift
	"$@" --help | sed 's/ *$//' | awk -v skipped="^($skipped):\$" '
		/^[^ ]/ { skip = $0 ~ skipped; empty = 1 }
		# A flag that every program has, and its text.
		/^ +-(h, --help|V, --version)/ { skip = 2; next }
		skip == 2 && /^ {0,4}[^ ]/ { skip = 0 }
		skip == 2 && /^ +-/ { skip = 0 }
		skip || /\[default: false\]|\[possible values: true, false\]/ { next }
		# One empty line between two others.
		/^$/ { empty = 1; next }
		{ if (empty && printed) print ""; empty = 0; printed = 1; print }'
	printf '```\n'
}
cat <<END
# Command line

Written from the programs' own \`--help\` by \`make command-line\`. The server has flags only. The commands are those of
\`kubectl gpu-metrics\`, which is the program \`kubectl-gpu_metrics\`. Exit codes stand with the commands that have any
but 0 and 1. \`backtest\` has the server's flags about Prometheus too. [Commands](commands.md) has examples.
END
page "The server" "$1"
skipped='Connection|Prometheus|Columns|Examples'
for command in $("$plugin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
	page "$command" "$plugin" "$command"
	# The first command prints the flags of the connection for all.
	[ "$command" = top ] || continue
	printf '\nThese flags are those of kubectl, for all commands that ask a cluster:\n\n```text\n'
	"$plugin" top --help | sed -n '/^Connection:/,/^Examples:/p' | sed '$d' | sed 's/ *$//' | cat -s | sed '$d'
	printf '```\n'
done
