#!/bin/sh
# Builds KEDA's operator and metrics server from their Go module. The manifests of the
# same module are put beside them.
#
#   build.sh         builds what is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"
target=keda
GO_MINOR=26
MODULE=github.com/kedacore/keda/v2
. ../go.sh

folder=$(cache keda build.sh ../go.sh operator/go.mod operator/go.sum)
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }
[ ! -x "$folder/adapter" ] || exit 0
prepare
[ ! -x "$folder/adapter" ] || exit 0
say "building KEDA into $folder, ten to thirty minutes on two cores, once"
cd operator
rm -rf "$folder/config"
# `list` names no folder of a module that is not downloaded.
GOWORK=off GOFLAGS= "$go" mod download "$MODULE"
cp -R "$(GOWORK=off GOFLAGS= "$go" list -mod=readonly -m -f '{{.Dir}}' "$MODULE")/config" "$folder/config"
chmod -R u+w "$folder/config"
build operator "$MODULE/cmd/operator" ""
# The sign that all is there.
build adapter "$MODULE/cmd/adapter" ""
