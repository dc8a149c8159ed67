#!/bin/sh
# Prints docs/command-line.md: what the program says of its commands.
#
#   docs/command-line.sh PROGRAM > docs/command-line.md
set -eu
cat <<END
# Command line

Written from the program's own \`--help\` by \`make command-line\`. Without a command it is \`serve\`; exit codes stand with
the commands that have any but 0 and 1. \`gpu-metrics-apiserver man DIR\` writes the same as man pages.
END
for command in $("$1" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
	printf '\n## %s\n\n```text\n' "$command"
	"$1" "$command" --help | sed 's/ *$//'
	printf '```\n'
done
