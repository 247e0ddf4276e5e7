#!/usr/bin/env bash
# Fuzzes every target of tests/fuzz for FUZZ_SECONDS, from its checked-in corpus. New inputs stay in build/fuzz.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh fuzz
configure_and_build fuzz

for target in build/fuzz/fuzz_targets/*_fuzz; do
  name=$(basename "$target")
  found=build/fuzz/found/$name
  crashes=build/fuzz/crashes/$name
  mkdir -p "$found" "$crashes"
  step "$name for ${FUZZ_SECONDS:-60} s"
  "$target" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$crashes/" "$found" "tests/fuzz/corpus/${name%_fuzz}"
done
