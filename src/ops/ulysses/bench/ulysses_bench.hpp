#pragma once
// `xstage bench ulysses`: measures a layer of sequence-parallel attention, and its computation alone (rows.hpp). In a
// build without CUDA run_ulysses_bench throws an error that says so.

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
