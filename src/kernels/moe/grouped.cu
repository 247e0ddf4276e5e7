// The instantiations of the grouped GEMM and their launch.

#include "kernels/moe/grouped.hpp"

#include "kernels/common/launch.hpp"
#include "kernels/moe/grouped_kernel.cuh"

namespace xstage::kernels {

namespace {

using Kernel = void (*)(GroupedLaunch);

Kernel choose(const GroupedGemm& gemm) {
  if (gemm.tile_columns == 256) {
    return gemm.gated ? grouped_kernel<256, true> : grouped_kernel<256, false>;
  }
  return gemm.gated ? grouped_kernel<128, true> : grouped_kernel<128, false>;
}

}  // namespace

void load_grouped(const GroupedGemm& gemm) { load_kernel(choose(gemm), SharedMemoryUse::dynamic, "the grouped GEMM"); }

void launch_grouped(const GroupedGemm& gemm, cudaStream_t stream) {
  const LaunchShape shape{static_cast<unsigned>(gemm.issuers),
                          gemm_threads,
                          gemm.shared_bytes,
                          SharedMemoryUse::dynamic,
                          Start::overlapping,
                          gemm.launch.tiling.cluster};
  launch_kernel(choose(gemm), shape, stream, "the grouped GEMM", gemm.launch);
}

}  // namespace xstage::kernels
