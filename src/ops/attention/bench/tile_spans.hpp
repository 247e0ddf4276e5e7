#pragma once
// Finds the tile to which each span of an attention belongs. A span states its head only. But unless CTAs draw their
// tiles, the n-th main loop of a CTA belongs to the n-th tile that the schedule deals to it.

#include <cstdint>
#include <vector>

#include "ops/attention/shares.hpp"
#include "xstage/attention.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// A span with its tile. Rows are those of the span's warpgroup.
struct TileSpan {
  trace::Span span;
  std::int64_t wave = 0;  // tiles of the CTA before this one; causal: 0
  bool whole_tile = true;
  std::int64_t rows = 0;       // that exist
  std::int64_t peer_rows = 0;  // of them, that belong to peers
  /// The same, with those of the warpgroup that is not recorded if it does what this one does.
  std::int64_t peer_rows_together = 0;
};

/// All spans of one call, on the common clock. Causal ones have no rows. Throws InputError if the trace is not one of
/// this problem and plan.
[[nodiscard]] std::vector<TileSpan> tile_spans(const trace::Trace& trace, const attention::Problem& problem,
                                               const attention::Plan& plan);

}  // namespace xstage::bench
