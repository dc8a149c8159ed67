#!/bin/sh
# Builds KEDA's operator and metrics server from their Go module into a cache folder
# that checkouts share and `cargo clean` leaves alone. The manifests of the same module
# are put beside them.
#
#   build.sh         builds what is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"

# The first Go that reads operator/go.mod.
GO_MINOR=26
MODULE=github.com/kedacore/keda/v2

hash=$(cat build.sh operator/go.mod operator/go.sum | sha256sum | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-metrics-apiserver/keda-$hash
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }

say() { echo "make keda: $*"; }

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
say "building KEDA into $folder, about ten minutes on two cores, once"
begun=$(date +%s)
cd operator
export CGO_ENABLED=0 GOWORK=off GOFLAGS=
rm -rf "$folder/config"
cp -R "$("$go" list -mod=readonly -m -f '{{.Dir}}' "$MODULE")/config" "$folder/config"
chmod -R u+w "$folder/config"
# A file is there whole or not at all; the last one is the sign that all are there.
for name in operator adapter; do
	nice "$go" build -mod=readonly -buildvcs=false -trimpath -ldflags "-s -w" \
		-o "$folder/.$name.$$" "$MODULE/cmd/$name"
	mv "$folder/.$name.$$" "$folder/$name"
done
say "done in $(($(date +%s) - begun)) s"
