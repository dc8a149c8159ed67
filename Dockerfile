# docker build -t gpu-metrics-apiserver:0.1.0 .

FROM rust:1.95-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
WORKDIR /build

# The targets that Cargo.toml names must exist.
RUN mkdir -p e2e benches/bench && echo 'fn main() {}' | tee e2e/main.rs benches/bench/main.rs > /dev/null
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY src src
# Part of the plugin: check prints them.
COPY docs/checks docs/checks
COPY docs/troubleshooting.md docs/
# docker build --build-arg GIT_COMMIT=$(git rev-parse HEAD)
ARG GIT_COMMIT=unknown
# The caches keep dependencies that were built before.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --profile dist --locked -p gpu-metrics-apiserver -p kubectl-gpu-metrics \
 && cp target/dist/gpu-metrics-apiserver target/dist/kubectl-gpu_metrics /usr/local/bin/ \
 && gpu-metrics-apiserver --version

# The plugin of kubectl, for a release: docker build --target plugin --output dist .
FROM scratch AS plugin
COPY --from=build /usr/local/bin/kubectl-gpu_metrics /

# The binary needs libc, libm and libgcc_s: no more than this image has. No
# shell, no package manager, user 65532.
FROM gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f
COPY --from=build /usr/local/bin/gpu-metrics-apiserver /usr/local/bin/gpu-metrics-apiserver
USER 65532:65532
EXPOSE 6443
ENTRYPOINT ["/usr/local/bin/gpu-metrics-apiserver"]
