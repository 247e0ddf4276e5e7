#!/usr/bin/env bash
# Checks the format of all sources; with --fix, formats them. Version 14 only: others format differently.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/bootstrap.sh format

sources() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.cu' '*.cuh'
  else
    find . -path ./build -prune -o '(' -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' ')' -print0
  fi
}

# A tracked file may be gone from the work tree.
mapfile -d '' -t files < <(sources | while IFS= read -r -d '' file; do [[ -f $file ]] && printf '%s\0' "$file"; done)
case "${1:-}" in
  --fix) clang-format-14 -i "${files[@]}" ;;
  "")
    clang-format-14 --dry-run --Werror "${files[@]}" || {
      echo "format: run 'make format'" >&2
      exit 1
    }
    echo "${#files[@]} files are formatted"
    ;;
  *)
    echo "usage: scripts/format.sh [--fix]" >&2
    exit 2
    ;;
esac
