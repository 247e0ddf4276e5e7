#!/usr/bin/env bash
# clang-tidy on the host code, with the compile commands of the release build; any warning is an error. Not on the tests:
# their macros take most of the time.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh test
[[ -f build/release/compile_commands.json ]] || configure_and_build release -DXSTAGE_TESTS=ON -DXSTAGE_BENCH=ON

log=build/release/clang-tidy.log
# GCC's own warning options are unknown to clang.
if ! run-clang-tidy-14 -p build/release -quiet -j "$JOBS" -extra-arg=-Wno-unknown-warning-option \
  "^$PWD/(src|bench)/(?!.*/test/).*\.cpp\$" >"$log" 2>&1; then
  sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -vE '^clang-tidy|warnings? generated|^$' >&2
  exit 1
fi
echo "$(grep -c '^clang-tidy' "$log") files are clean"
