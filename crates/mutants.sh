#!/usr/bin/env bash
# Changes one operator or value at a time and runs the tests of the crate. Fails if they miss a
# change that mutants.txt does not explain, or more than 8 % of a crate. Run from anywhere:
# make mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

# mutate NAME PATHS ARGUMENTS: of cargo-mutants and, after `--`, of cargo test.
mutate() {
  local name=$1 paths=$2 status=0
  local out=target/mutants/$name/mutants.out
  mkdir -p "target/mutants/$name"
  cargo mutants --package "$name" --file "crates/$name/src/$paths" \
    --output "target/mutants/$name" --no-shuffle --timeout 120 "${@:3}" || status=$?
  # 2: some were missed, 3: some ran out of time.
  [ "$status" = 0 ] || [ "$status" = 2 ] || [ "$status" = 3 ] || exit "$status"

  local missed explained unexplained count viable
  missed=$(sed -E 's/:[0-9]+:[0-9]+:/:/' "$out/missed.txt" | sort)
  explained=$(sed -E '/^#/d; s/ \| [^|]*$//' crates/mutants.txt | sort)
  unexplained=$(comm -23 <(echo "$missed") <(echo "$explained"))
  count=$(wc -l <"$out/missed.txt")
  viable=$(cat "$out"/{missed,caught,timeout}.txt | wc -l)
  echo "$name: $count of $viable changes are missed"
  if [ -n "$unexplained" ]; then
    printf 'not in crates/mutants.txt; test them, or delete what no test can tell:\n%s\n' "$unexplained"
    exit 1
  fi
  [ $((count * 100)) -le $((viable * 8)) ] || { echo "more than 8 %"; exit 1; }
}

mutate hpa '**' -- --lib
mutate adapter-rules '**' -- --lib
# Twelve random worlds: the usual 150 would take hours more.
WORLDS=12 mutate gpu-metrics '**' -- --lib --test numbers
# The server has tests of it too.
mutate aggregated-apiserver 'security/**' \
  --test-package aggregated-apiserver --test-package gpu-metrics-apiserver -- --lib
