#!/usr/bin/env bash
# One call on a machine with GPUs, best two or more: the tests of each part, the sanitizer and the profiler on it.
# scripts/measure.sh measures.
#   scripts/gpu_check.sh BUILD_FOLDER OUTPUT_FOLDER [calibration] [gemm] [attention] [ulysses] [moe]
# BUILD_FOLDER holds `xstage` and `gpu_tests` (build/release). Without parts: all. Every step has its own time limit, so a
# hang ends itself.
set -u
build=$(realpath "${1:?BUILD_FOLDER: where xstage and gpu_tests are}")
mkdir -p "${2:?OUTPUT_FOLDER: where samples, profiles and logs go}"
cd "$2" || exit 2  # relative names: the samples keep the command line that made them
shift 2
parts=${*:-calibration gemm attention ulysses moe}
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

# The tools replay or slow kernels down, and waits across GPUs would hang: local targets and virtual ranks only.
check_with_tools() { # NAME SANITIZER_TOOL TESTS KERNEL TESTS_FOR_COUNTERS METRICS
  [ -x "$build/gpu_tests" ] || return
  if command -v compute-sanitizer >/dev/null; then
    for sanitizer in memcheck "$2"; do
      step 120 "${sanitizer}_$1" compute-sanitizer --tool "$sanitizer" --error-exitcode 9 "$build/gpu_tests" \
        --gtest_filter="$3"
    done
  fi
  if command -v ncu >/dev/null; then
    step 120 "ncu_$1" ncu --clock-control none --kernel-name "regex:$4" --launch-count 1 --metrics "$6" \
      "$build/gpu_tests" --gtest_filter="$5"
  fi
}

calibration() {
  [ -x "$build/gpu_tests" ] && step 120 gpu_tests_burst "$build/gpu_tests" --gtest_filter='-*Gemm*:*SymmetricHeap*:*Attention*:*AllToAll*:*Ulysses*:*Moe*'
  step 90 calibrate "$tool" calibrate --node cuda -o profile.json --samples samples.csv
  step 90 calibrate_again "$tool" calibrate --node cuda -o profile-again.json --samples samples-again.csv
  step 30 validate "$tool" validate --platform profile.json --samples samples.csv
  step 30 validate_other_run "$tool" validate --platform profile.json --samples samples-again.csv
  check_with_tools burst racecheck '*LocalControl*' burst_kernel '*LocalControl*' \
    smsp__inst_executed_op_global_st.sum,lts__t_sectors_op_write.sum,gpu__time_duration.sum
  tail -n 25 validate.log
}

gemm() {
  [ -x "$build/gpu_tests" ] && step 120 gpu_tests_gemm "$build/gpu_tests" --gtest_filter='*Gemm*:*SymmetricHeap*'
  # synccheck, not racecheck: that does not know mbarriers, and reports whatever is ordered by them.
  check_with_tools gemm synccheck '*GemmOperation.ShortDepthAndFewCtas*' gemm_kernel Gemm.OperandsOnSixteenBytes \
    sm__inst_executed_pipe_tensor.sum,lts__t_sectors_op_write.sum,gpu__time_duration.sum
}

attention() {
  [ -x "$build/gpu_tests" ] && step 150 gpu_tests_attention "$build/gpu_tests" --gtest_filter='*Attention*:*AllToAll*'
  check_with_tools attention synccheck 'Attention.OperandsOnSixteenBytes:AttentionToOwners.TilesThatCrossRanks' \
    attention_kernel Attention.ManyTiles \
    sm__inst_executed_pipe_tensor.sum,lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum,gpu__time_duration.sum
}

ulysses() {
  [ -x "$build/gpu_tests" ] && step 60 gpu_tests_ulysses "$build/gpu_tests" --gtest_filter='*Ulysses*'
}

moe() {
  [ -x "$build/gpu_tests" ] && step 120 gpu_tests_moe "$build/gpu_tests" --gtest_filter='*Moe*'
  check_with_tools moe synccheck 'MoeLayer.Clamp:MoeGrouped.ShortAndLongDepths' grouped_kernel MoeGrouped.ShortAndLongDepths \
    sm__inst_executed_pipe_tensor.sum,lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum,gpu__time_duration.sum
}

for part in $parts; do
  case $part in
    calibration | gemm | attention | ulysses | moe) "$part" ;;
    *)
      echo "gpu_check: unknown part '$part'; calibration, gemm, attention, ulysses or moe" >&2
      exit 2
      ;;
  esac
done
exit $failed
