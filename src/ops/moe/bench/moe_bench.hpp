#pragma once
// `xstage bench moe`: an expert-parallel mixture-of-experts layer, and the kernels that make it, each alone
// (rows.hpp). Built without CUDA, run_moe_bench says so.

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
