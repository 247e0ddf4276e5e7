#pragma once
// `xstage bench gemm`: cuBLAS, our GEMM without communication, the fused operation, and its local twin, cell by cell
// (rows.hpp). Built without CUDA, run_gemm_bench says so.

#include <optional>
#include <string>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/prediction_basis.hpp"
#include "ops/gemm/bench/rows.hpp"

namespace xstage::bench {

struct GemmBenchOptions : RunOptions {  // cells of one rank run on the first device
  std::vector<GemmCell> cells;
  std::vector<GemmVariant> variants;
  std::string cublas_path;                     // empty: where the dynamic linker finds it
  std::optional<PredictionBasis> predictions;  // none: rows hold measurements only
  std::optional<GemmPlanOverrides> plan;       // of fused and local_twin; none: all as the rule picks it
};

/// `heads`: those of the cells. A cell that fails is reported and left out; `cublas` of the header has its version, or
/// why it is absent. Throws DeviceError if nothing can run at all. So do those of the other benchmarks.
[[nodiscard]] Outcome run_gemm_bench(const GemmBenchOptions& options, const std::vector<CellHead>& heads,
                                     const Observer& observer);

}  // namespace xstage::bench
