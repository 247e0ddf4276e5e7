#!/usr/bin/env bash
# Measures what bench/results holds, on a machine with GPUs: the commands of bench/measurements.json, each with a limit.
#   scripts/measure.sh FOLDER [name...]
# FOLDER gets NAME.json and NAME.log of each; names as in bench/measurements.json, default: all benchmarks, ours first,
# then the baselines. The tool is build/release/xstage, or what XSTAGE names. One line a measurement, then all seconds.
set -u
cd "$(dirname "$0")/.." || exit 2
folder=$(realpath -m "${1:?FOLDER: where results and logs go}")
shift
tool=$(realpath "${XSTAGE:-build/release/xstage}")
mkdir -p "$folder"
[ -x "$tool" ] || { echo "measure: $tool: no tool; build it, or name it in XSTAGE" >&2; exit 2; }
commit=$("$tool" --version | grep -oE '[0-9a-f]{40}(-dirty)?')

command_of() { # NAME: its command; fails if there is none
  python3 -c 'import json, sys; print(json.load(open("bench/measurements.json"))[sys.argv[1]])' "$1" 2>/dev/null
}

# Seconds until a measurement is stopped: about twice what it takes on two H200. What it has measured until then is kept.
limit_of() {
  case $1 in
    gemm-baselines-*) echo 240 ;;
    gemm-*) echo 180 ;;
    attention-spans-*) echo 60 ;;
    attention-baselines-*) echo 260 ;;
    attention-*) echo 240 ;;
    ulysses-baselines-*) echo 200 ;;
    ulysses-*) echo 100 ;;
    moe-bf16-baselines-7of8-*) echo 150 ;;
    moe-bf16-baselines-*) echo 240 ;;
    moe-bf16-local-*) echo 100 ;;
    moe-*) echo 560 ;;
    *) echo 300 ;;
  esac
}

names=${*:-$(python3 -c 'import json; print(*(name for name in json.load(open("bench/measurements.json")) if not name.startswith("calibration")))')}
failed=0
total=$SECONDS
for name in $names; do
  if ! command=$(command_of "$name"); then
    echo "measure: unknown name '$name'; bench/measurements.json has them" >&2
    exit 2
  fi
  read -ra words <<<"$command"
  limit=$(limit_of "$name")
  case ${words[0]} in
    xstage) words=("$tool" "${words[@]:1}" -o "$folder/$name.json") ;;
    python3)
      words=(python3 -B "${words[@]:1}" --limit "$limit" --commit "$commit" --output "$folder/$name.json")
      case $name in moe-*) words+=(--tool "$tool") ;; esac
      ;;
  esac
  if [ "${words[1]}" = calibrate ]; then
    words=("$tool" calibrate --node cuda -o "$folder/profile.json" --samples "$folder/samples.csv")
  fi
  started=$SECONDS
  if timeout -k 10 $((limit + 10)) "${words[@]}" >"$folder/$name.log" 2>&1; then
    printf '%-34s done     %4d s\n' "$name" $((SECONDS - started))
  else
    printf '%-34s FAILED (exit %d) after %d s\n' "$name" $? $((SECONDS - started))
    tail -n 15 "$folder/$name.log"
    failed=1
  fi
done
printf '%-34s          %4d s\n' "all of them" $((SECONDS - total))
exit $failed
