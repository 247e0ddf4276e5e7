#pragma once
// `xstage bench ulysses`: a layer of sequence-parallel attention, and what its computing takes alone
// (rows.hpp). Built without CUDA, run_ulysses_bench says so.

#include <vector>

#include "bench/bench_run.hpp"
#include "ops/ulysses/bench/rows.hpp"

namespace xstage::bench {

struct UlyssesBenchOptions : RunOptions {
  std::vector<UlyssesCell> cells;
  std::vector<UlyssesVariant> variants;
};

[[nodiscard]] Outcome run_ulysses_bench(const UlyssesBenchOptions& options, const std::vector<CellHead>& heads,
                                        const Observer& observer);

}  // namespace xstage::bench
