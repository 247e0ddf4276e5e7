// The instantiations of the GEMM kernel. There are few of them on purpose: everything else is decided at run time
// (design rule 10).

#include <type_traits>

#include "device/launch.hpp"
#include "ops/gemm/device/copy_gather.hpp"
#include "ops/gemm/device/gemm.hpp"
#include "ops/gemm/device/gemm_kernel.cuh"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

using Kernel = void (*)(GemmLaunch);
using VirtualKernel = void (*)(const GemmLaunch*, std::int32_t);

template <bool Transforms, class Probe>
Kernel choose(int tile_columns) {
  switch (tile_columns) {
    case 256:
      return gemm_kernel<256, Transforms, Probe>;
    case 128:
      return gemm_kernel<128, Transforms, Probe>;
    default:
      return gemm_kernel<64, Transforms, Probe>;
  }
}

Kernel choose(const GemmLaunchShape& shape) {
  if (shape.instrumented) {
    return choose<true, RecordingProbe>(shape.tile_columns);
  }
  return shape.transforms ? choose<true, NoProbe>(shape.tile_columns) : choose<false, NoProbe>(shape.tile_columns);
}

/// Virtual ranks are for tests, so their kernel contains everything.
template <class Probe>
VirtualKernel choose_virtual(int tile_columns) {
  switch (tile_columns) {
    case 256:
      if constexpr (std::is_same_v<Probe, RecordingProbe>) {
        throw InputError("instrumented virtual ranks have tiles of 64 or 128 columns: 256 leave no register for it");
      } else {
        return gemm_virtual_kernel<256, true, Probe>;
      }
    case 128:
      return gemm_virtual_kernel<128, true, Probe>;
    default:
      return gemm_virtual_kernel<64, true, Probe>;
  }
}

LaunchShape launch_shape(const GemmLaunchShape& shape, int ranks, Start start) {
  return {static_cast<unsigned>(shape.blocks * ranks),
          gemm_threads,
          shape.shared_bytes,
          SharedMemoryUse::dynamic,
          start,
          shape.cluster_size};
}

__global__ void gate_kernel(const __grid_constant__ GemmLaunch launch) {
  const CollectiveCall call(launch.call, 0);
  const std::uint32_t epoch = call.epoch();
  call.announce(epoch);
  static_cast<void>(call.await_peers(epoch));  // a wait that gives up has signalled all ranks
}

}  // namespace

void launch_gate(const GemmLaunch& launch, cudaStream_t stream) {
  launch_kernel(gate_kernel, {}, stream, "the gate of an all-gather", launch);
}

void load_gemm(const GemmLaunchShape& shape) {
  load_kernel(choose(shape), SharedMemoryUse::dynamic, "the GEMM kernel");
  load_kernel(gate_kernel, SharedMemoryUse::none, "the gate of an all-gather");
}

void launch_gemm(const GemmLaunch& launch, const GemmLaunchShape& shape, cudaStream_t stream) {
  launch_kernel(choose(shape), launch_shape(shape, 1, Start::overlapping), stream, "the GEMM kernel", launch);
}

void launch_virtual_gemm(const GemmLaunch* launches, int ranks, const GemmLaunchShape& shape, cudaStream_t stream) {
  const VirtualKernel kernel = shape.instrumented ? choose_virtual<RecordingProbe>(shape.tile_columns)
                                                  : choose_virtual<NoProbe>(shape.tile_columns);
  launch_kernel(kernel, launch_shape(shape, ranks, Start::together), stream, "the GEMM kernel of virtual ranks",
                launches, ranks);
}

}  // namespace xstage::kernels
