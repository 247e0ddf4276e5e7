#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that a target needs and the machine lacks. Says which before it starts.
#
#   scripts/bootstrap.sh build|test|bench|format|fuzz
set -euo pipefail

missing=()

# package, then a command line that succeeds if what the package provides is there, whoever installed it
need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

has_command() { command -v "$1"; }

at_least() { [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]; }

has_cmake() { at_least "$(cmake --version | sed -n '1s/.*version //p')" 3.25; }

has_compiler() { at_least "$(g++ -dumpversion)" 12; }

has_nvcc() { command -v "${CUDACXX:-nvcc}" || [[ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]]; }

# A header where the compiler looks, or a package of that name.
has_header() {
  [[ -e "/usr/include/$1" || -e "/usr/local/include/$1" ]]
}

need_build_tools() {
  need g++ has_compiler
  need cmake has_cmake
  need ninja-build has_command ninja
  need make has_command make
}

need_libraries() {
  need libcli11-dev has_header CLI/CLI.hpp
  need nlohmann-json3-dev has_header nlohmann/json.hpp
  need libfmt-dev has_header fmt/core.h
  # Reads the compile log of the kernels.
  if has_nvcc >/dev/null; then need python3 has_command python3; fi
}

need_for() {
  case "$1" in
    build) need_build_tools && need_libraries ;;
    bench) need_for build && need libbenchmark-dev has_header benchmark/benchmark.h ;;
    format)
      need clang-format-14 has_command clang-format-14
      ;;
    test)
      need_for bench
      need_for format
      need git has_command git
      need python3 has_command python3
      need libgtest-dev has_header gtest/gtest.h
      need libgmock-dev has_header gmock/gmock.h
      need clang-tidy-14 has_command run-clang-tidy-14
      ;;
    fuzz)
      need_for build
      need clang-14 has_command clang++-14
      need libclang-rt-14-dev ls /usr/lib/llvm-14/lib/clang/14.*/lib/linux/libclang_rt.fuzzer-*.a
      ;;
    *)
      echo "bootstrap: unknown target '$1'; one of build, test, bench, format, fuzz" >&2
      exit 2
      ;;
  esac
}

need_for "${1:?usage: scripts/bootstrap.sh build|test|bench|format|fuzz}"
[[ ${#missing[@]} -gt 0 ]] || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
install="apt-get install -y --no-install-recommends ${missing[*]}"

if ! command -v apt-get >/dev/null; then
  echo "bootstrap: missing, by their Debian names: ${missing[*]}" >&2
  echo "bootstrap: this system has no apt-get; install them with its own package manager and start again" >&2
  exit 1
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "bootstrap: missing packages: ${missing[*]}" >&2
    echo "bootstrap: not root and no sudo; have an administrator run: apt-get update && $install" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "bootstrap: will install with apt-get: ${missing[*]}"
if ! { "${as_root[@]}" apt-get -q update &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}"; }; then
  echo "bootstrap: installation failed; run as root: apt-get update && $install" >&2
  exit 1
fi
