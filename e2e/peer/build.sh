#!/bin/sh
# Builds prometheus-adapter, the server that this one stands in for, from its Go
# module into a cache folder that checkouts share and `cargo clean` leaves alone.
# The manifests of the same module are put beside it.
#
#   build.sh         builds it where it is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"

# The first Go that reads adapter/go.mod.
GO_MINOR=24

hash=$(cat build.sh adapter/go.mod adapter/go.sum | sha256sum | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-metrics-apiserver/peer-$hash
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }

say() { echo "make peer: $*"; }

[ ! -x "$folder/adapter" ] || exit 0
go=$(command -v go || command -v /usr/local/go/bin/go) || {
	say "go is missing: install Go 1.$GO_MINOR or newer from https://go.dev/dl/"
	exit 1
}
mkdir -p "$folder"
# Two checkouts build once; a machine without flock builds twice.
if command -v flock >/dev/null; then
	exec 9>"$folder/.lock"
	flock 9
	[ ! -x "$folder/adapter" ] || exit 0
fi
say "building prometheus-adapter into $folder, about two minutes on two cores, once"
begun=$(date +%s)
# A file is there whole or not at all.
(cd adapter && CGO_ENABLED=0 GOWORK=off GOFLAGS= nice "$go" build -mod=readonly -buildvcs=false \
	-trimpath -ldflags "-s -w" -o "$folder/.adapter.$$" sigs.k8s.io/prometheus-adapter/cmd/adapter)
module=$(cd adapter && GOWORK=off GOFLAGS= "$go" list -mod=readonly -m -f '{{.Dir}}' sigs.k8s.io/prometheus-adapter)
rm -rf "$folder/manifests"
cp -R "$module/deploy/manifests" "$folder/manifests"
chmod -R u+w "$folder/manifests"
mv "$folder/.adapter.$$" "$folder/adapter"
say "done in $(($(date +%s) - begun)) s"
