#!/usr/bin/env bash
# Host tests under the address and undefined-behaviour sanitizers.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh test
configure_and_build sanitize
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
ctest --test-dir build/sanitize --parallel "$JOBS" --output-on-failure --label-exclude gpu
