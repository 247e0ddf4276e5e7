#!/usr/bin/env bash
# Builds the tool alone: build/release/xstage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh build
configure_and_build release -DXSTAGE_TESTS=OFF -DXSTAGE_BENCH=OFF
