#include "ops/gemm/bench/cuda/local_twin.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "bench/cuda/operand_memory.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/gemm/device/layout.hpp"
#include "ops/gemm/layout.hpp"

namespace xstage::bench {

namespace {

using kernels::CallPad;

constexpr std::uint32_t raised = 0x40000000U;  // waits compare signed distances: half-way to where they would wrap

std::vector<std::uint32_t> read_pad(const char* base, std::size_t words) {
  std::vector<std::uint32_t> pad(words);
  cuda::check(cudaMemcpy(pad.data(), base, words * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
              "reading the signal pad of a local twin");
  return pad;
}

/// Raises the words that peers write. They stand before and behind this rank's own words (epochs, and no abort), which
/// do not change.
void raise_flags_of_peers(std::vector<std::uint32_t>& pad) {
  const auto own = pad.begin() + CallPad::abort;
  const auto tiles = pad.begin() + CallPad::arrivals;
  const auto is_zero = [](std::uint32_t word) { return word == 0; };
  if (!std::all_of(pad.begin(), own, is_zero) || std::all_of(own, tiles, is_zero) ||
      !std::all_of(tiles, pad.end(), is_zero)) {
    throw std::logic_error("the signal pad of a GEMM is not where its heap begins");
  }
  std::fill(pad.begin(), own, raised);
  std::fill(tiles, pad.end(), raised);
}

}  // namespace

void stand_in_for_peers(const HeapRank& heap, const Gemm& gemm) {
  const cuda::CurrentDevice current(heap.device());
  const gemm::Layout layout = gemm::make_layout(gemm.problem(), gemm.plan(), heap.rank(), heap.world());
  const std::size_t words = CallPad::arrivals + static_cast<std::size_t>(layout.tile_flags);
  char* base = heap.heap_view().base[heap.rank()];
  std::vector<std::uint32_t> pad = read_pad(base, words);
  raise_flags_of_peers(pad);
  cuda::check(cudaMemcpy(base, pad.data(), words * sizeof(std::uint32_t), cudaMemcpyHostToDevice),
              "raising the flags of a local twin");
  constexpr std::size_t alignment = HeapRank::default_alignment;
  const std::size_t behind = (words * sizeof(std::uint32_t) + alignment - 1) / alignment * alignment;
  if (behind < heap.bytes()) {
    fill_normal(heap.device(), base + behind, (heap.bytes() - behind) / 2, 1, 0);
  }
}

}  // namespace xstage::bench
