#!/bin/sh
# What xstage does, in a minute: fit, predict against measured, audit, and the same loop on a simulated node.
# Usage: scripts/demo.sh [TOOL] (default: build/release/xstage). Files are left beside the tool, in demo/.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
tool=${1:-$source/build/release/xstage}
if [ ! -x "$tool" ]; then
  echo "$0: no tool at $tool; build it with make build" >&2
  exit 2
fi
tool=$(cd "$(dirname "$tool")" && pwd)/$(basename "$tool")
output=$(dirname "$tool")/demo
output=${output#"$source"/}
cd "$source"
mkdir -p "$output"

step=0
heading() {
  step=$((step + 1))
  printf '\n================================================================================\n'
  printf '%d. %s\n' "$step" "$1"
  printf '================================================================================\n'
}

# What to look at, before it comes.
look() {
  printf '%s\n' "$@"
  printf '\n'
}

show() {
  printf '$ xstage'
  for word in "$@"; do
    case $word in
      *' '*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n\n'
  "$tool" "$@"
}

# An audit that fails its test (exit code 1) or cannot decide (5) is a result, not a failure of the demo.
show_audit() {
  code=0
  show audit "$@" || code=$?
  [ "$code" -le 1 ] || [ "$code" -eq 5 ] || exit "$code"
  printf '(exit code %d)\n' "$code"
}

calibrate_gpus() {
  heading "Calibrate the GPUs of this machine"
  look "Real stores from one GPU to another. Look at the drain rate R: no kernel can store remotely faster than that" \
    "for long. Then: how well does the fitted model predict samples that the fit has not seen?"
  show calibrate --node cuda --quick -o "$output/this-machine.json" --samples "$output/this-machine.csv"
  printf '\n'
  show validate --platform "$output/this-machine.json" --samples "$output/this-machine.csv"
}

fit_recorded_samples() {
  heading "Fit a platform profile to samples measured on two H200"
  look "A store to a peer GPU is accepted long before it arrives; three numbers per store path say how much of that a" \
    "node bears. Look at R (what drains), T_iss0 (what an unhindered burst costs its CTA) and Q (what may be" \
    "outstanding)."
  show fit profiles/h200x2-samples.csv -o "$output/h200x2.json"
}

compare_held_out() {
  heading "Predicted against measured, on samples that the fit has not seen"
  look "First the errors of every group of samples, then one gap sweep sample by sample. Look at the period: the" \
    "burst-gap model follows it across the corner, while 'completion-coupled' is what it would be if each CTA waited" \
    "until its stores arrive."
  show validate --platform "$output/h200x2.json" --samples profiles/h200x2-samples.csv
  printf '\n'
  show validate --platform "$output/h200x2.json" --samples profiles/h200x2-samples.csv --rows \
    --group '16-byte stores, periodic, free-running'
}

audit_kernels() {
  heading "Audit a kernel with a long gap: an attention output tile and its Q-loop"
  look "Look at the verdicts. Free-running, the stores hide behind the next tile. If all CTAs stored at the same" \
    "moment, 4 MiB would arrive at once: see what that costs, and how many would have to be staggered."
  show_audit --platform "$output/h200x2.json" "examples/workloads/attention-tile-h200.json" --max-stall 5%
  heading "Audit a kernel with a short gap: a fine-grained MoE Linear-2 tile"
  look "The same tile, but the next one is computed before the last has drained: the stores stall the tensor cores." \
    "Look at the price per tile, and at the gap and the tile size from which on the test would pass."
  show_audit --platform "$output/h200x2.json" "examples/workloads/moe-linear2-tile-h200.json"
}

close_the_loop() {
  heading "The same loop without GPUs: calibrate a simulated node, then validate"
  look "The simulated node moves 128-byte packets through queues and links; it knows none of the model's equations." \
    "Look at R and Q: they come out of the mechanism, close to the H200's above. And the predictions hold there too."
  show calibrate --node simulated:h200x2 --quick -o "$output/simulated.json" --samples "$output/simulated.csv"
  printf '\n'
  show validate --platform "$output/simulated.json" --samples "$output/simulated.csv"
}

if "$tool" devices --json | grep -q '"usable": true'; then
  calibrate_gpus
else
  echo "No pair of usable GPUs here (xstage devices says why): the demo runs on samples recorded on two H200."
fi
fit_recorded_samples
compare_held_out
audit_kernels
close_the_loop
printf '\nProfiles and samples of this demo: %s\nNext: docs/command-line.md, docs/audit.md\n' "$output"
