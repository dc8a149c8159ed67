#!/usr/bin/env bash
# Prints lines of production code, lines of tests and public items of each crate,
# and the lines of the end-to-end tests and benchmarks. Run from anywhere: make count.
set -euo pipefail
cd "$(dirname "$0")/.."

# Lines before the unit tests of each file; with `rest` those from there on.
lines() {
  awk -v want="$1" '
    FNR == 1 { in_tests = FILENAME ~ /(^|\/)(tests?|testing|e2e)(\/|\.rs$)/ }
    /^#\[cfg\(test\)\]$/ { held = 1; next }
    held { if ($0 ~ /^mod [a-z_]+ \{/) in_tests = 1; tally(); held = 0 }
    { tally() }
    function tally() { count[in_tests ? "rest" : "code"]++ }
    END { print count[want] + 0 }' "${@:2}"
}

printf '%-24s %10s %8s %8s\n' crate production tests public
code=0 tests=0 public=0
for folder in crates/*/ ./; do
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1)
  places=("$folder/src")
  [ -d "$folder/tests" ] && places+=("$folder/tests")
  mapfile -t files < <(find "${places[@]}" -name '*.rs')
  of_code=$(lines code "${files[@]}")
  of_tests=$(lines rest "${files[@]}")
  items=$({ grep -hE '^\s*pub (const |async )*(fn|struct|enum|trait|type|const|static|mod) ' "${files[@]}" || true; } | wc -l)
  printf '%-24s %10d %8d %8d\n' "$name" "$of_code" "$of_tests" "$items"
  code=$((code + of_code)) tests=$((tests + of_tests)) public=$((public + items))
done
printf '%-24s %10d %8d %8d\n' total "$code" "$tests" "$public"
for folder in e2e benches; do
  mapfile -t files < <(find "$folder" -name '*.rs')
  printf '%-24s %10s %8d\n' "$folder" '' "$(cat "${files[@]}" | wc -l)"
done
