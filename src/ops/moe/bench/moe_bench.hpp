#pragma once
// `xstage bench moe`: measures an expert-parallel mixture-of-experts layer, and each of its kernels alone (rows.hpp).
// In a build without CUDA run_moe_bench throws an error that says so.

#include <optional>
#include <vector>

#include "bench/bench_run.hpp"
#include "ops/moe/bench/rows.hpp"

namespace xstage::bench {

struct MoeBenchOptions : RunOptions {
  std::vector<MoeCell> cells;
  std::vector<MoeVariant> variants;
  std::optional<double> drain_gb_per_s;  // R of a platform
};

[[nodiscard]] Outcome run_moe_bench(const MoeBenchOptions& options, const std::vector<CellHead>& heads,
                                    const Observer& observer);

}  // namespace xstage::bench
