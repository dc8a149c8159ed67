#!/usr/bin/env bash
# Changes one operator or value at a time and runs the tests of the crate. Fails if they miss a
# change that mutants.txt does not explain, or more than 8 % of all. Run from anywhere: make mutants.
set -euo pipefail
cd "$(dirname "$0")/.."
out=target/mutants/mutants.out
mkdir -p target/mutants
status=0
cargo mutants --package hpa --package adapter-rules \
  --output target/mutants --no-shuffle --timeout 120 -- --lib || status=$?
# 2: some were missed, 3: some ran out of time.
[ "$status" = 0 ] || [ "$status" = 2 ] || [ "$status" = 3 ] || exit "$status"

missed=$(sed -E 's/:[0-9]+:[0-9]+:/:/' "$out/missed.txt" | sort)
explained=$(sed '/^#/d; s/ | .*//' crates/mutants.txt | sort)
unexplained=$(comm -23 <(echo "$missed") <(echo "$explained"))
count=$(wc -l <"$out/missed.txt")
viable=$(cat "$out"/{missed,caught,timeout}.txt | wc -l)
echo "$count of $viable changes are missed"
if [ -n "$unexplained" ]; then
  printf 'not in crates/mutants.txt; test them, or delete what no test can tell:\n%s\n' "$unexplained"
  exit 1
fi
[ $((count * 100)) -le $((viable * 8)) ] || { echo "more than 8 %"; exit 1; }
