# Sourced by the other scripts: the repository root as working folder, and headings with the time spent.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
JOBS=${JOBS:-$(nproc)}

step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# configure_and_build PRESET [cmake argument]... : quiet unless something goes wrong
configure_and_build() {
  local preset=$1
  shift
  mkdir -p "build/$preset"
  if ! cmake --preset "$preset" "$@" >"build/$preset/configure.log" 2>&1; then
    cat "build/$preset/configure.log" >&2
    return 1
  fi
  grep -E '^-- CUDA node' "build/$preset/configure.log" || true
  cmake --build "build/$preset" --parallel "$JOBS"
}
