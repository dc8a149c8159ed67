#!/bin/sh
# Builds the stores of `make test-slow` that Debian does not have from Go modules.
#
#   build.sh         builds what is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"
target=stores
GO_MINOR=25
. ../go.sh

folder=$(cache stores build.sh ../go.sh ./*/go.mod ./*/go.sum)
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }
prepare

# store NAME MINUTES PACKAGE TAGS
store() {
	[ ! -x "$folder/$1" ] || return 0
	say "building $1 into $folder, about $2 minutes on two cores, once"
	(cd "$1" && build "$1" "$3" "" "$4")
}

store prometheus two github.com/prometheus/prometheus/cmd/prometheus remove_all_sd
# Without this tag it panics: makeslice: len out of range.
store thanos three github.com/thanos-io/thanos/cmd/thanos slicelabels
store mimir four github.com/grafana/mimir/cmd/mimir stringlabels
