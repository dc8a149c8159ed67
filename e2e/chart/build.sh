#!/bin/sh
# Builds Helm, which renders and installs the chart, from its Go module into a
# cache folder that checkouts share and `cargo clean` leaves alone.
#
#   build.sh         builds it where it is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"

# The first Go that reads helm/go.mod.
GO_MINOR=25

hash=$(cat build.sh helm/go.mod helm/go.sum | sha256sum | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-metrics-apiserver/helm-$hash
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }
[ ! -x "$folder/helm" ] || exit 0

say() { echo "make helm: $*"; }

go=$(command -v go || command -v /usr/local/go/bin/go) || {
	say "go is missing: install Go 1.$GO_MINOR or newer from https://go.dev/dl/"
	exit 1
}

mkdir -p "$folder"
# Two checkouts build once; a machine without flock builds twice.
if command -v flock >/dev/null; then
	exec 9>"$folder/.lock"
	flock 9
	[ ! -x "$folder/helm" ] || exit 0
fi
say "building Helm into $folder, one to three minutes on two cores, once"
cd helm
version=$(GOFLAGS= "$go" list -m -f '{{.Version}}' helm.sh/helm/v3)
# Without it the chart's kubeVersion and `helm version` see a v3 of no number.
CGO_ENABLED=0 GOWORK=off GOFLAGS= nice "$go" build -mod=readonly -buildvcs=false -trimpath \
	-ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$version" \
	-o "$folder/.helm.$$" helm.sh/helm/v3/cmd/helm
# A file is there whole or not at all.
mv "$folder/.helm.$$" "$folder/helm"
