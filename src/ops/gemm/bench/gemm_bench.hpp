#pragma once
// `xstage bench gemm`: measures cuBLAS, this library's GEMM without communication, the fused operation, and its local
// twin, cell by cell (rows.hpp). In a build without CUDA run_gemm_bench throws an error that says so.

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

/// Measures the cells in `heads`. A cell that fails is reported and left out. `cublas` of the header is its version, or
/// the reason why it is absent. Throws DeviceError if nothing can run at all. The other benchmarks do the same.
[[nodiscard]] Outcome run_gemm_bench(const GemmBenchOptions& options, const std::vector<CellHead>& heads,
                                     const Observer& observer);

}  // namespace xstage::bench
