#!/usr/bin/env bash
# Micro-benchmarks of the host code.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh bench
configure_and_build release -DXSTAGE_TESTS=OFF -DXSTAGE_BENCH=ON
build/release/model_bench "$@"
