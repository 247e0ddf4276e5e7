#!/usr/bin/env bash
# Everything that CI checks. Ends with CTest's own summary.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step "packages"
scripts/bootstrap.sh test

step "format"
scripts/format.sh

step "rules between rooms"
python3 -B scripts/check_rooms.py

step "release build, with all CUDA code where nvcc is found"
configure_and_build release -DXSTAGE_TESTS=ON -DXSTAGE_BENCH=ON

if grep -q '^CMAKE_CUDA_COMPILER:[A-Z]*=/' build/release/CMakeCache.txt; then
  step "kernels: registers, stack frames, spills (design rule 10)"
  python3 -B scripts/check_ptxas.py build/release
fi

step "results belong to the code in the tree"
python3 -B scripts/check_results.py

step "tables of the documents are those of the result files"
python3 -B scripts/write_tables.py --check

step "clang-tidy"
scripts/tidy.sh

step "host tests under sanitizers"
scripts/sanitize.sh

step "tests"
ctest --test-dir build/release --parallel "$JOBS" --output-on-failure
