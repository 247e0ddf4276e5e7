#pragma once
// The lead that Linear-1 needs in the interleaved schedule. Host code.
//
// CTAs claim tiles in order, each when its last one is done. A tile of Linear-2 waits if it is claimed before the last
// tile of Linear-1 of its block is done. The knee is the lead from which on no tile waits. It depends only on tiles,
// CTAs, and the durations of tiles; docs/notes/moe-schedules.md derives the bounds.
//
//   necessary_lead <= lead_knee <= sufficient_lead
//
// The bounds are formulas. The knee depends on how the starts of tiles of unequal duration interleave, which no formula
// gives: it is found by simulating the claims.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "ops/moe/interleaved.hpp"

namespace xstage::schedule {

/// Durations of a tile, in any unit; at least 1.
struct MoeTileTimes {
  std::int64_t linear1;
  std::int64_t linear2;
};

namespace lead_detail {

inline std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace lead_detail

/// The first tile of Linear-2 waits with a smaller lead, if there are more blocks than the lead.
///
/// Proof: until that tile all tiles are of Linear-1, in rounds of all CTAs. Block 0 is complete with the round that
/// contains its last tile. The first tile of Linear-2 comes behind lead * linear1 tiles and the tiles of Linear-1 with
/// which step 0 begins, and must not be in that round.
inline std::int32_t necessary_lead(const MoeTiling& tiling, std::int32_t ctas) {
  const std::int64_t linear1 = tiling.linear1_tiles.value();
  const std::int64_t rounds = lead_detail::divide_up(linear1, ctas);
  const std::int64_t before = lead_detail::divide_up(tiling.block_tiles.value(), tiling.linear2_tiles.value()) - 1;
  const std::int64_t lead = lead_detail::divide_up(std::max<std::int64_t>(rounds * ctas - before, 0), linear1);
  return static_cast<std::int32_t>(std::max<std::int64_t>(lead, 1));
}

/// No tile of Linear-2 waits with this lead, if there are at least twice as many blocks.
///
/// Proof: if one waited, all claims between it and the last tile of Linear-1 of its block would begin while that tile
/// lasts, on the other CTAs. Each of these CTAs begins at most one tile of Linear-1 in that time, its last, and at most
/// linear1 / linear2 tiles of Linear-2. But before the rest of the schedule lead - 1 blocks of Linear-1 lie between the
/// two, and in the rest lead - 1 blocks of Linear-2.
inline std::int32_t sufficient_lead(const MoeTiling& tiling, std::int32_t ctas, const MoeTileTimes& times) {
  const std::int64_t others = ctas - 1;
  const std::int64_t linear2_begun = others * lead_detail::divide_up(times.linear1, times.linear2);
  const std::int64_t before_rest = lead_detail::divide_up(others, tiling.linear1_tiles.value());
  const std::int64_t in_rest = lead_detail::divide_up(linear2_begun, tiling.linear2_tiles.value());
  return static_cast<std::int32_t>(1 + std::max(before_rest, in_rest));
}

/// Number of slots with which no tile of Linear-1 waits for one, if no tile of Linear-2 waits. The proof is the same,
/// with whole steps between the last tile of Linear-2 of a slot and the first tile of Linear-1 that takes the slot
/// over.
inline std::int32_t ring_without_waits(const MoeTiling& tiling, std::int32_t ctas, const MoeTileTimes& times,
                                       std::int32_t lead) {
  const MoeDivisor& counted = times.linear1 >= times.linear2 ? tiling.block_tiles : tiling.linear2_tiles;
  return static_cast<std::int32_t>(lead + 1 + lead_detail::divide_up(ctas - 1, counted.value()));
}

/// Whether no tile of Linear-2 waits if CTAs draw the tiles of `blocks` blocks with this lead.
inline bool linear2_never_waits(const MoeTiling& tiling, std::int32_t ctas, const MoeTileTimes& times,
                                std::int32_t lead, std::int32_t blocks) {
  // The assignment to experts changes no time, so one expert has all blocks.
  const std::int32_t tokens = blocks * tiling.block_rows;
  const std::int32_t first_block[] = {0, blocks};
  MoeBlocks one_expert{};
  one_expert.start(&tokens, first_block, 1);
  Interleaved schedule{};
  schedule.start(tiling, one_expert, lead);

  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_ctas(
      std::greater<>(), std::vector<std::int64_t>(static_cast<std::size_t>(ctas), 0));
  std::vector<std::int64_t> complete(static_cast<std::size_t>(blocks), 0);
  for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
    const MoeTile tile = schedule.tile(index);
    const std::int64_t start = free_ctas.top();
    std::int64_t& block_complete = complete[static_cast<std::size_t>(tile.block)];
    free_ctas.pop();
    if (tile.linear == MoeLinear::one) {
      block_complete = std::max(block_complete, start + times.linear1);
      free_ctas.push(start + times.linear1);
    } else if (start < block_complete) {
      return false;
    } else {
      free_ctas.push(start + times.linear2);
    }
  }
  return true;
}

/// The smallest lead from which on no tile of Linear-2 waits. A number of `blocks` below twice the sufficient lead
/// counts as that number.
inline std::int32_t lead_knee(const MoeTiling& tiling, std::int32_t ctas, const MoeTileTimes& times,
                              std::int32_t blocks) {
  std::int32_t lead = sufficient_lead(tiling, ctas, times);
  blocks = std::max(blocks, 2 * lead);
  while (lead > necessary_lead(tiling, ctas) && linear2_never_waits(tiling, ctas, times, lead - 1, blocks)) {
    --lead;
  }
  return lead;
}

}  // namespace xstage::schedule
