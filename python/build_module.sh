#!/bin/sh
# build_module.sh LIBDIR OUT: the Python package in OUT/xstage, from libraries that were built before.
#
# For a machine with Python, a GPU and fmt's headers but without what else the libraries are built with: compiles the
# bindings and nanobind only and links the libraries of LIBDIR that are named below. Variables: PYTHON (python3), CXX (g++),
# CUDA_HOME (/usr/local/cuda).
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 LIBDIR OUT" >&2
  exit 2
fi
libraries=$1
out=$2
python=${PYTHON:-python3}
compiler=${CXX:-g++}
cuda=${CUDA_HOME:-/usr/local/cuda}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

for library in libxstage_kernels.a libxstage_operators.a libxstage_cuda_node.a libxstage_device.a libxstage.a; do
  if [ ! -f "$libraries/$library" ]; then
    echo "$libraries/$library: no such file; build it with: cmake --preset cuda && cmake --build build/cuda" >&2
    exit 1
  fi
done
cuda_library=$cuda/lib64
[ -f "$cuda_library/libcudart_static.a" ] || cuda_library=$cuda/lib
if [ ! -f "$cuda_library/libcudart_static.a" ]; then
  echo "$cuda: has no lib64/libcudart_static.a; set CUDA_HOME to a CUDA toolkit" >&2
  exit 1
fi
if ! nanobind=$("$python" -m nanobind --include_dir); then
  echo "nanobind was not found for $python. Run: $python -m pip install nanobind" >&2
  exit 1
fi
nanobind=$(dirname -- "$nanobind")
python_include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')

objects=$out/objects
mkdir -p "$out/xstage" "$objects"
flags="-std=c++20 -O2 -DNDEBUG -DFMT_HEADER_ONLY -fPIC -fvisibility=hidden"
# shellcheck disable=SC2086  # flags are words
"$compiler" $flags -fno-strict-aliasing -isystem "$python_include" -isystem "$nanobind/include" \
  -isystem "$nanobind/ext/robin_map/include" -c "$nanobind/src/nb_combined.cpp" -o "$objects/nanobind.o"
set -- "$objects/nanobind.o"
for source in "$root"/python/xstage/*.cpp; do
  object=$objects/$(basename -- "$source" .cpp).o
  # shellcheck disable=SC2086
  "$compiler" $flags -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Werror -I "$root/include" -I "$root/src" \
    -isystem "$python_include" -isystem "$nanobind/include" -isystem "$cuda/include" \
    -c "$source" -o "$object"
  set -- "$@" "$object"
done
# The module's own CUDA runtime must not be mistaken for PyTorch's, or the other way round: its symbols stay inside.
"$compiler" -shared -o "$out/xstage/_core$suffix" "$@" \
  -Wl,--start-group "$libraries/libxstage_kernels.a" "$libraries/libxstage_operators.a" \
  "$libraries/libxstage_cuda_node.a" "$libraries/libxstage_device.a" "$libraries/libxstage.a" \
  -Wl,--end-group "$cuda_library/libcudart_static.a" -Wl,--exclude-libs,ALL -Wl,--gc-sections -lpthread -ldl -lrt
cp "$root"/python/xstage/*.py "$out/xstage/"
echo "$out/xstage: built; use it with PYTHONPATH=$out"
