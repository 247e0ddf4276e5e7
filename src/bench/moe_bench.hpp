#pragma once
// `xstage bench moe`: an expert-parallel mixture-of-experts layer, and the kernels that make it, each alone.
//
//   variant        each rank computes                       communication
//   unfused        the layer: one kernel after the other    those of dispatch and combine
//   unfused_rows   the same                                 those of dispatch and combine_rows
//   dispatch       where rows go                            tokens to the ranks of their experts
//   linear1        its experts' rows: gate, up and SwiGLU   none
//   linear2        its experts' rows                        none
//   combine        sums over choices                        one row back for each token and rank: Combine::partial_sums
//   combine_rows   sums over choices                        one row back for each choice: Combine::rows
//
// and dispatch_local and combine_local, which are dispatch and combine whose rows for peers stay in the rank's own
// memory: the kernels without the fabric.
//
// All have the same routing. The trials of a cell's variants alternate; every trial is one CUDA graph of many calls on
// each GPU, and all GPUs start together. One rank alone has `unfused`, `linear1` and `linear2`. Built without CUDA,
// run_moe_bench says so.

#include <optional>
#include <string>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/moe_row.hpp"

namespace xstage::bench {

struct MoeBenchOptions {
  std::vector<MoeCell> cells;
  std::vector<int> devices;              // one a rank
  std::vector<std::string> variants;     // as parse_moe_variants has them
  std::optional<double> drain_gb_per_s;  // R of a platform
  int trials = 20;
  bool verify = false;
};

struct MoeBenchOutcome : RunState {
  std::vector<MoeRow> rows;
};

using MoeBenchObserver = BenchObserver<MoeRow, MoeBenchOutcome>;

/// A cell that fails is reported and left out. Throws DeviceError if nothing can run at all.
[[nodiscard]] MoeBenchOutcome run_moe_bench(const MoeBenchOptions& options, const MoeBenchObserver& observer);

}  // namespace xstage::bench
