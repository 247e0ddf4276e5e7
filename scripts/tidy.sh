#!/usr/bin/env bash
# clang-tidy on the host code, any warning is an error. Each source alone, unlike in the other builds, so that an include
# that is missing shows. Not on the tests: their macros take most of the time.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh test
mkdir -p build/tidy
if ! cmake --preset release -B build/tidy -DXSTAGE_UNITY=OFF -DXSTAGE_TESTS=ON -DXSTAGE_BENCH=ON >build/tidy/configure.log 2>&1; then
  cat build/tidy/configure.log >&2
  exit 1
fi

log=build/tidy/clang-tidy.log
# GCC's own warning options are unknown to clang.
if ! run-clang-tidy-14 -p build/tidy -quiet -j "$JOBS" -extra-arg=-Wno-unknown-warning-option \
  "^$PWD/(src|bench)/(?!.*/test/).*\.cpp\$" >"$log" 2>&1; then
  sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -vE '^clang-tidy|warnings? generated|^$' >&2
  exit 1
fi
echo "$(grep -c '^clang-tidy' "$log") files are clean"
