#!/bin/sh
# Builds the stores of `make test-slow` that Debian does not have from Go
# modules into a cache folder that checkouts share and `cargo clean` leaves
# alone.
#
#   build.sh         builds what is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"

# The first Go that reads the newest go.mod here.
GO_MINOR=25

hash=$(cat build.sh ./*/go.mod ./*/go.sum | sha256sum | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-metrics-apiserver/stores-$hash
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }

say() { echo "make stores: $*"; }

go=$(command -v go || command -v /usr/local/go/bin/go) || {
	say "go is missing: install Go 1.$GO_MINOR or newer from https://go.dev/dl/"
	exit 1
}

# build PART MINUTES PACKAGE TAGS: a file is there whole or not at all.
build() {
	[ ! -x "$folder/$1" ] || return 0
	say "building $1 into $folder, about $2 minutes on two cores, once"
	(cd "$1" && CGO_ENABLED=0 GOWORK=off GOFLAGS= nice "$go" build -mod=readonly \
		-buildvcs=false -trimpath -tags "$4" -ldflags "-s -w" -o "$folder/.$1.$$" "$3")
	mv "$folder/.$1.$$" "$folder/$1"
}

mkdir -p "$folder"
# Two checkouts build once; a machine without flock builds twice.
if command -v flock >/dev/null; then
	exec 9>"$folder/.lock"
	flock 9
fi
build prometheus two github.com/prometheus/prometheus/cmd/prometheus remove_all_sd
# Without this tag it panics: makeslice: len out of range.
build thanos three github.com/thanos-io/thanos/cmd/thanos slicelabels
build mimir four github.com/grafana/mimir/cmd/mimir stringlabels
