# One place for people and CI. `make test` and `make lint` install what they
# need where it is missing, and say so.

CARGO ?= cargo
DENY_VERSION := 0.20.2
MDBOOK_VERSION := 0.5.4
# benches/README.md, "Budgets".
MOST_MIB := 24
FUZZ_SECONDS ?= 600
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

.PHONY: all test test-slow test-oldest fuzz mutants recorded lint bench bench-peer soak dist plugin programs prerequisites controlplane helm manifests command-line tables docs peer stores keda cargo-deny pinned advisories count

all: lint test

# Everything: unit, property, API tests over TLS, and those against a real
# Prometheus, VictoriaMetrics, kubectl and control plane.
test: prerequisites
	@# Side by side: each has long stretches that keep one core busy.
	@$(MAKE) --no-print-directory -j2 controlplane helm peer programs
	$(CARGO) test --locked --workspace --lib --bins --benches --test numbers --test data --test corpus
	@# They wait more than they work: for windows, autoscalers, outages. The Go programs
	@# have memory to spare, and collect garbage less often.
	GOGC=400 $(CARGO) test --locked --workspace --test e2e -- --test-threads=6
	$(CARGO) test --locked --workspace --doc

# Against stores that Debian does not have, built first; the table of the run
# goes into e2e/slow/README.md. Then the end-to-end tests that take minutes each; their
# last result is e2e/slow/README.md.
test-slow: prerequisites programs stores controlplane helm peer keda test-oldest fuzz mutants
	$(CARGO) test --locked --features slow --test slow -- --nocapture
	WORLDS=300 $(CARGO) test --locked -p gpu-metrics --test numbers worlds
	$(CARGO) test --locked --workspace --test e2e -- --ignored --test-threads=3 --nocapture

# Install, an HPA up and down, check and explain on the oldest Kubernetes that is
# supported; ten minutes more, once.
test-oldest: prerequisites programs
	@e2e/controlplane/build.sh oldest
	KUBEBUILDER_ASSETS=$$(e2e/controlplane/build.sh oldest where) $(CARGO) test --locked --workspace --test e2e -- \
	  --include-ignored --test-threads=2 cluster::install:: cluster::scaling::s110 cluster::check::

# Searches for inputs that break the checks of fuzz/src, for FUZZ_SECONDS each. A finding goes
# into fuzz/corpus with its mending.
fuzz:
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 && command -v c++ >/dev/null || { \
	  echo "make fuzz: needs rustup toolchain install nightly, cargo install cargo-fuzz, and a C++ compiler"; exit 1; }
	@cp Cargo.lock fuzz/Cargo.lock
	@for target in $$(ls fuzz/corpus); do \
	  mkdir -p target/fuzz/found/$$target; \
	  $(CARGO) +nightly fuzz run --target-dir target/fuzz $$target target/fuzz/found/$$target fuzz/corpus/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 -print_final_stats=1 || exit 1; \
	done

# Whether the tests notice a changed operator or value; what they miss is in crates/mutants.txt.
mutants:
	@command -v cargo-mutants >/dev/null || { echo "make mutants: needs cargo install cargo-mutants"; exit 1; }
	@crates/mutants.sh

# What a real kube-controller-manager writes in the situations of e2e/controller, for the
# tests of hpa and of explain hpa: a minute. Again for each new version of Kubernetes.
recorded: controlplane
	RECORDED=crates/hpa/tests/recorded.json $(CARGO) test --locked --test e2e -- --ignored controller::

lint: cargo-deny pinned
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items
	$(CARGO) deny --locked check bans licenses sources
	@tree=$$($(CARGO) tree --locked --target all -i ring 2>/dev/null); \
	if [ -n "$$tree" ]; then echo "make lint: ring is in the tree beside aws-lc-rs"; exit 1; fi

# Lines of production code, of tests and of end-to-end tests, and public items, by crate.
count:
	@crates/count.sh

# What is known against the crates of Cargo.lock: not in `lint`, because it changes
# without a change here.
advisories: cargo-deny
	$(CARGO) deny --locked check advisories

# Actions and images by digest: a tag may come to mean another one. Of an action
# `git ls-remote https://github.com/OWNER/NAME TAG` tells the commit, of an image
# `docker buildx imagetools inspect IMAGE` the digest.
pinned:
	@loose=$$(grep -rnE '^ *(- )?(uses|container):|^FROM ' .github/workflows Dockerfile | \
	  grep -vE '@[0-9a-f]{40} # v[0-9]|@sha256:[0-9a-f]{64}|uses: \./|FROM scratch'); \
	if [ -n "$$loose" ]; then echo "make lint: not pinned by digest:"; echo "$$loose"; exit 1; fi

# Checks its answers; writes the table of benches/README.md to stdout. With
# BASE=COMMIT it runs that commit beside this tree, and writes both and the ratio.
# Valgrind finds the counted function by its symbol.
bench: prerequisites
	@if [ -n "$(BASE)" ]; then benches/beside.sh $(BASE); else CARGO_PROFILE_DIST_STRIP=none $(CARGO) bench --locked --profile dist; fi

# Lists of 4 and of 1,000 pods, and 500 autoscalers, from this server and from
# prometheus-adapter; nginx as the limit. For the tables of benches/peer/README.md.
bench-peer: prerequisites controlplane peer
	@missing=""; \
	command -v wrk >/dev/null || missing="$$missing wrk"; \
	[ -x /usr/sbin/nginx ] || missing="$$missing nginx-light"; \
	if [ -n "$$missing" ]; then \
	  echo "make bench-peer: installing Debian's$$missing"; \
	  $(SUDO) apt-get update -qq && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
	$(CARGO) bench --locked --features bench-peer --bench peer -- lists autoscalers

# 50,000 autoscalers on 10,000 GPUs for ten minutes (SOAK_MINUTES), with a real
# Prometheus and kube-apiserver. For the table of benches/peer/README.md.
soak: prerequisites controlplane
	$(CARGO) bench --locked --features bench-peer --bench peer -- soak

# The server as the image has it, and the plugin; some minutes on two cores.
dist:
	$(CARGO) build --locked --profile dist -p gpu-metrics-apiserver -p kubectl-gpu-metrics
	@mib=$$(($$(stat -c %s target/dist/gpu-metrics-apiserver) / 1048576)); \
	echo "make dist: $$mib MiB"; \
	[ $$mib -lt $(MOST_MIB) ] || { echo "make dist: the binary may have less than $(MOST_MIB) MiB"; exit 1; }
	@nm target/dist/gpu-metrics-apiserver 2>&1 | grep -q "no symbols" || \
	{ echo "make dist: the binary has a symbol table, or 'nm' is missing (binutils)"; exit 1; }

# The archive that krew installs on machines like this one; plugin/manifest.sh
# makes the manifest of all of them.
plugin: dist
	@arch=$$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/'); \
	tar -czf "target/kubectl-gpu_metrics_linux_$$arch.tar.gz" LICENSE -C target/dist kubectl-gpu_metrics

# The server, the plugin of kubectl and the demonstration, which end-to-end tests run.
programs:
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked --workspace --all-targets --no-run

# The real parts of the tests.
prerequisites:
	@missing=""; \
	command -v prometheus >/dev/null && command -v promtool >/dev/null || missing="$$missing prometheus"; \
	command -v victoria-metrics >/dev/null || missing="$$missing victoria-metrics"; \
	command -v kubectl >/dev/null || missing="$$missing kubernetes-client"; \
	command -v curl >/dev/null || missing="$$missing curl"; \
	command -v valgrind >/dev/null || missing="$$missing valgrind"; \
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || missing="$$missing chromium chromium-driver"; \
	if [ -n "$$missing" ]; then \
	  echo "make test: installing Debian's$$missing"; \
	  $(SUDO) apt-get update -qq && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
	@prometheus --version 2>&1 | head -n 1

# kube-apiserver, etcd and what goes with them, from Go modules: about ten
# minutes, once, into a folder that checkouts share.
controlplane:
	@e2e/controlplane/build.sh

# prometheus-adapter, which the server stands in for, from its Go module: about
# two minutes, once, into such a folder.
peer:
	@e2e/peer/build.sh

# What renders and installs the chart: three minutes, once, into the same folder.
helm:
	@e2e/chart/build.sh

# The objects of manifests/, the alerts and the dashboard, which the chart is the
# source of.
manifests: helm
	@charts/manifests.sh
	@cp charts/gpu-metrics-apiserver/files/alerts.yaml alerts/gpu-metrics-apiserver.yaml
	@cp charts/gpu-metrics-apiserver/files/dashboards/*.json dashboards/
	@mkdir -p target
	@docs/chart-values.sh charts/gpu-metrics-apiserver/values.yaml > target/chart-values.md
	@mv target/chart-values.md docs/chart-values.md

# The page with what --help says.
command-line:
	$(CARGO) build --locked -p gpu-metrics-apiserver -p kubectl-gpu-metrics
	@docs/command-line.sh target/debug/gpu-metrics-apiserver > target/command-line.md
	@mv target/command-line.md docs/command-line.md

# The tables and lists of the manual and of the chart that follow from declarations.
tables:
	RENEW=1 $(CARGO) test --quiet --locked --lib generated_ -- --test-threads=1

# The manual as a site.
docs:
	@mdbook --version 2>/dev/null | grep -qF $(MDBOOK_VERSION) || { \
	  echo "make docs: building mdBook $(MDBOOK_VERSION), some minutes, once"; \
	  $(CARGO) install --quiet --locked --version $(MDBOOK_VERSION) --no-default-features --features search mdbook; }
	mdbook build

# Prometheus 3, Thanos and Mimir, from Go modules: about ten minutes, once.
stores:
	@e2e/slow/build.sh

# KEDA's operator and metrics server.
keda:
	@e2e/keda/build.sh

cargo-deny:
	@command -v cargo-deny >/dev/null || { \
	  echo "make lint: building cargo-deny $(DENY_VERSION), some minutes, once"; \
	  $(CARGO) install --quiet --locked --version $(DENY_VERSION) cargo-deny; }
