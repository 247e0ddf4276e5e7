#!/usr/bin/env bash
# One call on a machine with two or more GPUs: tests, a full calibration twice, its checks, and a short table.
#   scripts/gpu_check.sh BUILD_FOLDER OUTPUT_FOLDER
# BUILD_FOLDER holds `xstage` and `gpu_tests` (build/release). Every step has its own time limit, so a hang ends itself.
set -u
build=$(realpath "${1:?BUILD_FOLDER: where xstage and gpu_tests are}")
mkdir -p "${2:?OUTPUT_FOLDER: where samples, profiles and logs go}"
cd "$2" || exit 2  # relative names: the samples keep the command line that made them
failed=0

step() { # step SECONDS NAME COMMAND...: runs, logs, prints one line
  local limit=$1 name=$2 start
  shift 2
  start=$(date +%s.%N)
  if timeout "$limit" "$@" >"$name.log" 2>&1; then
    printf '%-28s passed   %6.1f s\n' "$name" "$(awk -v from="$start" -v to="$(date +%s.%N)" 'BEGIN { print to - from }')"
  else
    printf '%-28s FAILED (exit %d)\n' "$name" $?
    tail -n 15 "$name.log"
    failed=1
  fi
}

tool=$build/xstage
step 20 devices "$tool" devices
[ -x "$build/gpu_tests" ] && step 120 gpu_tests "$build/gpu_tests"
step 90 calibrate "$tool" calibrate --node cuda -o profile.json --samples samples.csv
step 90 calibrate_again "$tool" calibrate --node cuda -o profile-again.json --samples samples-again.csv
step 30 validate "$tool" validate --platform profile.json --samples samples.csv
step 30 validate_other_run "$tool" validate --platform profile.json --samples samples-again.csv
# Local targets only: the tools replay or slow kernels down, and waits across GPUs would hang.
local_tests=--gtest_filter='*Local*:BurstLauncher.*'
if command -v compute-sanitizer >/dev/null && [ -x "$build/gpu_tests" ]; then
  step 120 memcheck compute-sanitizer --tool memcheck --error-exitcode 9 "$build/gpu_tests" "$local_tests"
  step 120 racecheck compute-sanitizer --tool racecheck --error-exitcode 9 "$build/gpu_tests" --gtest_filter='*LocalControl*'
fi
if command -v ncu >/dev/null && [ -x "$build/gpu_tests" ]; then
  step 120 ncu ncu --clock-control none --kernel-name regex:burst_kernel --launch-count 1 \
    --metrics smsp__inst_executed_op_global_st.sum,lts__t_sectors_op_write.sum,gpu__time_duration.sum \
    "$build/gpu_tests" --gtest_filter='*LocalControl*'
fi
tail -n 25 validate.log
exit $failed
