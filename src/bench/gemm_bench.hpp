#pragma once
// `xstage bench gemm`: cuBLAS, our GEMM without communication, the fused operation, and its local twin, cell by cell.
//
//   variant      each rank computes                                communication
//   cublas       its share of the product, by cuBLAS               none
//   alone        its share of the product, by our kernel           none
//   fused        the operation                                     over the links
//   local_twin   the operation, with the same stores and flags     none: "peers" are local memory, flags are always up
//
// The trials of a cell's variants alternate; every trial is one CUDA graph of many calls on each GPU, and all GPUs
// start together. Built without CUDA, run_gemm_bench says so.

#include <optional>
#include <string>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/gemm_prediction.hpp"
#include "bench/gemm_row.hpp"
#include "bench/plan_options.hpp"

namespace xstage::bench {

struct GemmBenchOptions {
  std::vector<GemmCell> cells;
  std::vector<int> devices;  // one a rank; cells of one rank run on the first
  int trials = 20;
  bool verify = false;
  bool local_twin = false;
  bool spans = false;                          // after the trials of a cell: calls of the instrumented kernel
  std::string cublas_path;                     // empty: where the dynamic linker finds it
  std::optional<PredictionBasis> predictions;  // none: rows hold measurements only
  std::optional<GemmPlanOverrides> plan;       // of fused and local_twin; none: all as the rule picks it
};

struct GemmBenchOutcome : RunState {
  std::vector<GemmRow> rows;
  std::string cublas;                 // its version, or why it is absent
  std::optional<trace::Trace> trace;  // of the last cell with spans
};

using GemmBenchObserver = BenchObserver<GemmRow, GemmBenchOutcome>;

/// A cell that fails is reported and left out. Throws DeviceError if nothing can run at all.
[[nodiscard]] GemmBenchOutcome run_gemm_bench(const GemmBenchOptions& options, const GemmBenchObserver& observer);

}  // namespace xstage::bench
