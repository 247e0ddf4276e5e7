#!/usr/bin/env bash
# Builds the tool alone.
#   scripts/build.sh        build/release/xstage
#   scripts/build.sh demo   build/demo/xstage, without operators and benchmarks
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:-release}
if [[ $preset == demo ]]; then
  scripts/bootstrap.sh demo
else
  scripts/bootstrap.sh build
fi
configure_and_build "$preset" -DXSTAGE_TESTS=OFF -DXSTAGE_BENCH=OFF
