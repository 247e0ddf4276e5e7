#pragma once
// `xstage bench ulysses`: a layer of sequence-parallel attention, from the hidden states of a rank's own tokens to its
// projected results, and what its computing takes alone.
//
//   variant            each rank computes                     communication
//   compute            its share of the layer                 none
//   qkv_projection     its tokens' Q, K and V                 none
//   attention          its heads                              none
//   output_projection  its tokens' results                    none
//   fused              its share of the layer                 tiles of Q, K and V to the ranks of their heads, tiles of
//                                                             the attention to the owners of their rows; each kernel
//                                                             ends when its peers' tiles have arrived
//   flags              the same                               the same, but the attention begins when the rank's own
//                                                             projection has ended and waits for peers' tiles itself
//
// The trials of a cell's variants alternate; every trial is one CUDA graph of many calls on each GPU, and all GPUs
// start together. One rank alone has `compute` and its parts. Built without CUDA, run_ulysses_bench says so.

#include <string>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/ulysses_row.hpp"

namespace xstage::bench {

struct UlyssesBenchOptions {
  std::vector<UlyssesCell> cells;
  std::vector<int> devices;           // one a rank
  std::vector<std::string> variants;  // as parse_ulysses_variants has them
  int trials = 20;
  bool verify = false;
};

struct UlyssesBenchOutcome : RunState {
  std::vector<UlyssesRow> rows;
};

using UlyssesBenchObserver = BenchObserver<UlyssesRow, UlyssesBenchOutcome>;

/// A cell that fails is reported and left out. Throws DeviceError if nothing can run at all.
[[nodiscard]] UlyssesBenchOutcome run_ulysses_bench(const UlyssesBenchOptions& options,
                                                    const UlyssesBenchObserver& observer);

}  // namespace xstage::bench
