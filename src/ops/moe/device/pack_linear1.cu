// Packs Linear-1: 8 rows of gate, then the same 8 rows of up, and so on (ops/moe/packing.hpp).

#include "ops/moe/device/launches.hpp"

#include <algorithm>

#include "device/launch.hpp"
#include "ops/moe/packing.hpp"

namespace xstage::kernels {

namespace {

constexpr int pack_threads = 256;
constexpr std::int64_t most_pack_blocks = 4096;
constexpr std::int64_t unit_elements = 8;  // of bf16 in 16 bytes

/// Blocks in row y of the grid copy expert y. Each copies a row of gate and the same row of up, then its next pair of
/// rows.
__global__ void __launch_bounds__(pack_threads) pack_linear1_kernel(const Linear1Packing packing) {
  const std::int64_t row_units = packing.hidden / unit_elements;
  const std::int64_t source = blockIdx.y * (packing.expert_stride / unit_elements);
  const auto* gate = static_cast<const uint4*>(packing.gate) + source;
  const auto* up = static_cast<const uint4*>(packing.up) + source;
  uint4* const packed = static_cast<uint4*>(packing.packed) + blockIdx.y * 2 * packing.intermediate * row_units;
  for (std::int64_t row = blockIdx.x; row < packing.intermediate; row += gridDim.x) {
#pragma unroll 1  // otherwise the compiler would unroll by four and spill
    for (std::int64_t unit = threadIdx.x; unit < row_units; unit += pack_threads) {
      packed[moe::packed_gate_row(row) * row_units + unit] = gate[row * row_units + unit];
      packed[moe::packed_up_row(row) * row_units + unit] = up[row * row_units + unit];
    }
  }
}

}  // namespace

void launch_pack_linear1(const Linear1Packing& packing, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(std::min(packing.intermediate, most_pack_blocks)),
                    static_cast<unsigned>(packing.experts));
  launch_kernel(pack_linear1_kernel, {blocks, pack_threads}, stream, "the packing of Linear-1", packing);
}

}  // namespace xstage::kernels
