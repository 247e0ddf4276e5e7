#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that a target needs and the machine lacks. Says which before it starts.
#
#   scripts/bootstrap.sh demo|build|test|bench|format|fuzz
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

# CuTe headers of the kernels, needed with nvcc only; a user's CUTLASS_DIR comes first. From PyPI, pinned by hash.
cutlass_version=4.2.0.0
cutlass_sha256=f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6
cutlass_folder=build/cutlass

has_cutlass() {
  [[ -e "${CUTLASS_DIR:-}/include/cute/arch/mma_sm90_gmma.hpp" ||
    -e "$cutlass_folder/cutlass_library/source/include/cute/arch/mma_sm90_gmma.hpp" ]]
}

fetch_cutlass() {
  echo "bootstrap: will fetch nvidia-cutlass $cutlass_version from PyPI into $cutlass_folder (headers only)"
  local download
  download=$(mktemp -d)
  echo "nvidia-cutlass==$cutlass_version --hash=sha256:$cutlass_sha256" >"$download/requirements.txt"
  if ! python3 -m pip download --quiet --no-deps --require-hashes --dest "$download" -r "$download/requirements.txt"; then
    echo "bootstrap: could not fetch it; set CUTLASS_DIR to a checkout of CUTLASS 4 instead" >&2
    exit 1
  fi
  python3 -m zipfile -e "$download"/nvidia_cutlass-*.whl "$download/unpacked"
  mkdir -p build
  rm -rf "$cutlass_folder"
  mv "$download/unpacked" "$cutlass_folder"
  rm -rf "$download"
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
  if has_nvcc >/dev/null; then
    need python3 has_command python3
    if [[ $target != demo ]] && ! has_cutlass; then need python3-pip python3 -m pip --version; fi
  fi
}

need_for() {
  case "$1" in
    demo | build) need_build_tools && need_libraries ;;
    bench) need_for build && need libbenchmark-dev has_header benchmark/benchmark.h ;;
    format)
      need clang-format-14 has_command clang-format-14
      ;;
    test)
      need_for bench
      need_for format
      need git has_command git
      need pkg-config has_command pkg-config
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
      echo "bootstrap: unknown target '$1'; one of demo, build, test, bench, format, fuzz" >&2
      exit 2
      ;;
  esac
}

target=${1:?usage: scripts/bootstrap.sh demo|build|test|bench|format|fuzz}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
need_for "$target"
fetch_headers() {
  if has_nvcc >/dev/null && [[ $target != format && $target != demo ]] && ! has_cutlass; then fetch_cutlass; fi
}

if [[ ${#missing[@]} -eq 0 ]]; then
  fetch_headers
  exit 0
fi

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

fetch_headers
