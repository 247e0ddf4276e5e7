#include "ops/attention/bench/tile_spans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "bench/span_times.hpp"
#include "ops/attention/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

using kernels::SpanKind;
using schedule::AttentionShare;
using trace::Span;

/// The tiles of each CTA of a rank in the order in which it computes them, as in ops/attention/device/loader.cuh.
class DealtTiles {
 public:
  DealtTiles(const attention::Problem& problem, const attention::Plan& plan, int rank, int world)
      : issuers_(plan.issuers), schedule_(attention::make_schedule(problem, rank, world)) {
    whole_ = schedule_.tiles();
    if (plan.split == 1) {
      whole_ = schedule::whole_tiles(schedule_, issuers_);
      shares_ = schedule::split_left_over(schedule_, issuers_);
    }
  }

  [[nodiscard]] AttentionShare of(const Span& span, std::int64_t number) const {
    const std::int64_t whole_of_block = whole_ > span.block ? (whole_ - span.block - 1) / issuers_ + 1 : 0;
    if (span.block < issuers_ && number < whole_of_block) {
      const auto index = static_cast<std::int32_t>(span.block + number * issuers_);
      return {schedule_.tile(index), 0, 1, 0, 0};
    }
    const std::int64_t share = number - whole_of_block;
    const auto place = static_cast<std::size_t>(span.block * schedule::shares_each + share);
    if (span.block >= issuers_ || share >= schedule::shares_each || place >= shares_.size() ||
        shares_[place].tile.block_end == 0) {
      throw InputError(
          fmt::format("a main loop on rank {}, CTA {}: its schedule has {} there", span.rank, span.block, number));
    }
    return shares_[place];
  }

 private:
  std::int32_t issuers_;
  schedule::AttentionSchedule schedule_;
  std::int32_t whole_ = 0;
  std::vector<AttentionShare> shares_;
};

/// A tile, and the number of tiles that the CTA had before it.
struct Work {
  AttentionShare share;
  std::int64_t number = 0;
};

/// One warpgroup of a CTA and the warp that stores for it.
struct Half {
  std::int64_t main_loops = 0;
  Work current;
  std::vector<Work> staged;
  std::size_t stored = 0;
};

class Assignment {
 public:
  Assignment(const attention::Problem& problem, const attention::Plan& plan, int world) : problem_(problem) {
    for (int rank = 0; rank < world; ++rank) {
      dealt_.emplace_back(problem, plan, rank, world);
      own_.push_back(attention::row_range(problem.rows, rank, world));
    }
  }

  /// In order of their beginning: a warpgroup's main loops and stagings.
  [[nodiscard]] TileSpan multiplied(const Span& span) {
    Half& half = half_with(span);
    if (is(span, SpanKind::main_loop)) {
      const std::int64_t number = half.main_loops++;
      half.current = {dealt_[static_cast<std::size_t>(span.rank)].of(span, number), number};
    } else if (half.main_loops == 0) {
      throw InputError(fmt::format("rank {}, CTA {} stages before its first main loop", span.rank, span.block));
    } else {
      half.staged.push_back(half.current);
    }
    return described(span, half.current);
  }

  /// After these: the same of stores, which are in the order in which their rows were staged.
  [[nodiscard]] TileSpan stored(const Span& span) {
    Half& half = half_with(span);
    if (half.stored == half.staged.size()) {
      throw InputError(fmt::format("rank {}, CTA {} stores what it has not staged", span.rank, span.block));
    }
    return described(span, half.staged[half.stored++]);
  }

 private:
  Half& half_with(const Span& span) { return halves_[{span.rank, span.block, half_of(span)}]; }

  [[nodiscard]] TileSpan described(const Span& span, const Work& work) const {
    const schedule::AttentionTile& tile = work.share.tile;
    if (span.tile != tile.head) {
      throw InputError(fmt::format("a span of head {} on rank {}, CTA {}: its schedule has head {} there", span.tile,
                                   span.rank, span.block, tile.head));
    }
    const bool second = half_of(span) == 1;
    const std::int64_t first_row = tile.row + (second ? attention::slab_rows : 0);
    TileSpan described;
    described.span = span;
    described.wave = work.number;
    described.whole_tile = tile.block_end - tile.block_begin == (problem_.keys - 1) / attention::block_keys + 1;
    described.rows = rows_of(first_row);
    described.peer_rows = peer_rows(span.rank, first_row);
    described.peer_rows_together =
        described.peer_rows + (second ? peer_rows(span.rank, first_row + attention::slab_rows) : 0);
    return described;
  }

  [[nodiscard]] std::int64_t end_of(std::int64_t first_row) const {
    return std::min(first_row + attention::slab_rows, problem_.rows);
  }

  [[nodiscard]] std::int64_t rows_of(std::int64_t first_row) const {
    return std::max<std::int64_t>(end_of(first_row) - first_row, 0);
  }

  [[nodiscard]] std::int64_t peer_rows(int rank, std::int64_t first_row) const {
    const RowRange& own = own_[static_cast<std::size_t>(rank)];
    const std::int64_t staying = std::min(end_of(first_row), own.begin + own.count) - std::max(first_row, own.begin);
    return rows_of(first_row) - std::max<std::int64_t>(staying, 0);
  }

  attention::Problem problem_;
  std::vector<DealtTiles> dealt_;  // [rank]
  std::vector<RowRange> own_;      // [rank]
  std::map<std::tuple<int, int, int>, Half> halves_;
};

std::vector<TileSpan> without_rows(const std::vector<Span>& spans) {
  std::vector<TileSpan> without;
  for (const Span& span : spans) {
    without.emplace_back().span = span;
  }
  return without;
}

}  // namespace

std::vector<TileSpan> tile_spans(const trace::Trace& trace, const attention::Problem& problem,
                                 const attention::Plan& plan) {
  const std::vector<Span> all = trace::on_common_clock(trace);
  if (problem.causal) {
    return without_rows(all);
  }
  Assignment assignment(problem, plan, static_cast<int>(trace.clocks.size()));
  std::vector<TileSpan> spans;
  for (const Span& span : all) {
    if (is(span, SpanKind::main_loop) || is(span, SpanKind::stage_tile)) {
      spans.push_back(assignment.multiplied(span));
    }
  }
  for (const Span& span : all) {
    if (is(span, SpanKind::store_tile)) {
      spans.push_back(assignment.stored(span));
    }
  }
  return spans;
}

}  // namespace xstage::bench
