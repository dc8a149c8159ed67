# For the scripts that build programs of the tests from Go modules into a cache folder
# that checkouts share and `cargo clean` leaves alone. They set `target` (the name for
# make) and GO_MINOR (the first Go that reads their go.mod), and read this file.

say() { echo "make $target: $*"; }

# cache NAME FILE...: the folder for what these files build.
cache() {
	cached=$1
	shift
	printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/gpu-metrics-apiserver/$cached-$(cat "$@" | sha256sum | cut -c 1-16)"
}

# Finds Go, and takes the lock of "$folder": two checkouts build once; a machine without
# flock builds twice.
prepare() {
	go=$(command -v go || command -v /usr/local/go/bin/go) || {
		say "go is missing: install Go 1.$GO_MINOR or newer from https://go.dev/dl/"
		exit 1
	}
	mkdir -p "$folder"
	! command -v flock >/dev/null || { exec 9>"$folder/.lock"; flock 9; }
}

# build NAME PACKAGE LDFLAGS [TAGS]: a file is there whole or not at all.
build() {
	CGO_ENABLED=0 GOWORK=off GOFLAGS= nice "$go" build -mod=readonly -buildvcs=false -trimpath \
		-tags "${4-}" -ldflags "-s -w $3" -o "$folder/.$1.$$" "$2"
	mv "$folder/.$1.$$" "$folder/$1"
}
