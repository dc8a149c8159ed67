#!/bin/sh
# Builds the control plane of the end-to-end tests from Go modules into a cache
# folder that checkouts share and `cargo clean` leaves alone.
#
#   build.sh                  builds what is missing
#   build.sh where            says which folder that is
#   build.sh oldest [where]   the same with the oldest Kubernetes that is supported
set -eu
cd "$(dirname "$0")"

# The first Go that reads the newest go.mod here.
GO_MINOR=26

# Both releases are made from one program, by another file of modules.
modules=go
if [ "${1-}" = oldest ]; then
	modules=oldest
	shift
fi
inputs="build.sh kubernetes/main.go kubernetes/$modules.mod kubernetes/$modules.sum etcd/main.go"
for module in etcd kwok; do inputs="$inputs $module/go.mod $module/go.sum"; done
# shellcheck disable=SC2086
hash=$(cat $inputs | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-metrics-apiserver
folder=$cache/controlplane-$hash
[ "${1-}" != where ] || { printf '%s\n' "$folder"; exit; }

say() { echo "make controlplane: $*"; }

# A Go new enough; one that fetches a newer toolchain by itself will do.
find_go() {
	remedy="install Go 1.$GO_MINOR or newer from https://go.dev/dl/ (Debian 12's golang-go is too old)"
	go=$(command -v go || command -v /usr/local/go/bin/go) || { say "go is missing: $remedy"; exit 1; }
	version=$(cd / && "$go" env GOVERSION)
	minor=$(printf '%s' "$version" | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[ "${minor:-$GO_MINOR}" -lt $GO_MINOR ] || return 0
	[ "$minor" -ge 21 ] && [ "$("$go" env GOTOOLCHAIN)" != local ] && return 0
	say "$go is $version: $remedy"
	exit 1
}

# What envtest brought along needs no build.
have() { [ -x "$folder/$1" ] || [ -x "${KUBEBUILDER_ASSETS:-/nonexistent}/$1" ]; }

# build PART PACKAGE LDFLAGS: a file is there whole or not at all.
build() {
	(cd "$1" && CGO_ENABLED=0 GOWORK=off GOFLAGS= \
		"$go" build -modfile="${4-go}.mod" -mod=readonly -buildvcs=false -trimpath -ldflags "-s -w $3" -o "$folder/.$1.$$" "$2")
	mv "$folder/.$1.$$" "$folder/$1"
}

# timed WHAT ABOUT COMMAND...
timed() {
	say "building $1 into $folder, $2 on two cores, once"
	shift 2
	begun=$(date +%s)
	"$@"
	say "done in $(($(date +%s) - begun)) s"
}

# Clients judge a server by its version: without these it is v0.0.0-master.
kubernetes() {
	release=$(cd kubernetes && GOFLAGS= "$go" list -modfile=$modules.mod -m -f '{{.Version}}' k8s.io/kubernetes)
	numbers=${release#v}
	package=k8s.io/component-base/version
	build kubernetes . "-X $package.gitVersion=$release -X $package.gitMajor=${numbers%%.*} -X $package.gitMinor=$(echo "$numbers" | cut -d . -f 2)" $modules
	# The last link is the sign that all are there.
	for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
		ln -sf kubernetes "$folder/$name"
	done
}

have etcd && have kwok && [ -x "$folder/kubectl" ] && exit
find_go
mkdir -p "$folder"
# Two checkouts build once; a machine without flock builds twice.
if command -v flock >/dev/null; then
	exec 9>"$folder/.lock"
	flock 9
fi
have etcd || timed "etcd" "half a minute" build etcd . ""
have kwok || timed "KWOK" "one to two minutes" build kwok sigs.k8s.io/kwok/cmd/kwok ""
[ -x "$folder/kubectl" ] || timed "kube-apiserver, -controller-manager, -scheduler and kubectl" "five to ten minutes" kubernetes
