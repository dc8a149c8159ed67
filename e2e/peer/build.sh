#!/bin/sh
# Builds prometheus-adapter, the server that this one stands in for, from its Go module.
# The manifests of the same module are put beside it.
#
#   build.sh         builds it where it is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"
target=peer
GO_MINOR=24
. ../go.sh

folder=$(cache peer build.sh ../go.sh adapter/go.mod adapter/go.sum)
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }
[ ! -x "$folder/adapter" ] || exit 0
prepare
[ ! -x "$folder/adapter" ] || exit 0
say "building prometheus-adapter into $folder, about two minutes on two cores, once"
cd adapter
rm -rf "$folder/manifests"
# `list` names no folder of a module that is not downloaded.
GOWORK=off GOFLAGS= "$go" mod download sigs.k8s.io/prometheus-adapter
module=$(GOWORK=off GOFLAGS= "$go" list -mod=readonly -m -f '{{.Dir}}' sigs.k8s.io/prometheus-adapter)
cp -R "$module/deploy/manifests" "$folder/manifests"
chmod -R u+w "$folder/manifests"
# The sign that all is there.
build adapter sigs.k8s.io/prometheus-adapter/cmd/adapter ""
