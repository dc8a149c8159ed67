#!/usr/bin/env bash
# Runs the benchmarks of this tree and of another commit in turn on this machine, twice,
# and prints the smaller results and their ratio. Both are built without link-time
# optimisation.
# Usage: benches/beside.sh COMMIT [NAME OF A PART...]
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify "${1:?usage: benches/beside.sh COMMIT [PART...]}^{commit}")
shift
# Objects come from this repository. The folder keeps what is built for the next commit.
other=target/beside
[ -d "$other/.git" ] || git clone --quiet --shared --no-checkout . "$other"
git -C "$other" checkout --quiet --detach "$base"

# Prints the path of the built program.
build() {
  (cd "$1" && env -u CARGO_TARGET_DIR cargo bench --locked --bench bench --no-run --message-format=json) |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}
before=$(build "$other")
after=$(build .)
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
for turn in 1 2; do
  (cd "$other" && "$before" --bench "$@") > "$results/before.$turn"
  "$after" --bench "$@" > "$results/after.$turn"
done

echo "| what | size | before | after | ratio |"
echo "|---|---|---|---|---|"
# The first number of a result counts. A row that only one commit has is left out.
awk -F ' *[|] *' '
  FNR == 1 { is_after = FILENAME ~ /after/ }
  $4 !~ /^[0-9]/ { next }
  {
    key = $2 " | " $3; split($4, words, " "); number = words[1] + 0
    if (is_after && !(key in after)) order[++rows] = key
    if (is_after && (!(key in after) || number < after[key])) after[key] = number
    if (!is_after && (!(key in before) || number < before[key])) before[key] = number
    unit[key] = words[2]; sub(/[;,]$/, "", unit[key])
  }
  END {
    for (row = 1; row <= rows; row++) {
      key = order[row]
      if (!(key in before)) continue
      ratio = before[key] > 0 ? sprintf("%.2f", after[key] / before[key]) : "-"
      printf "| %s | %s %s | %s %s | %s |\n", key, before[key], unit[key], after[key], unit[key], ratio
    }
  }' "$results"/before.* "$results"/after.*
