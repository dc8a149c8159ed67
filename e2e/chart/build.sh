#!/bin/sh
# Builds Helm, which renders and installs the chart, from its Go module.
#
#   build.sh         builds it where it is missing
#   build.sh where   says which folder that is
set -eu
cd "$(dirname "$0")"
target=helm
GO_MINOR=25
. ../go.sh

folder=$(cache helm build.sh ../go.sh helm/go.mod helm/go.sum)
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }
[ ! -x "$folder/helm" ] || exit 0
prepare
[ ! -x "$folder/helm" ] || exit 0
say "building Helm into $folder, one to three minutes on two cores, once"
cd helm
# Without it the chart's kubeVersion and `helm version` see a v3 of no number.
version=$(GOFLAGS= "$go" list -m -f '{{.Version}}' helm.sh/helm/v3)
build helm helm.sh/helm/v3/cmd/helm "-X helm.sh/helm/v3/internal/version.version=$version"
