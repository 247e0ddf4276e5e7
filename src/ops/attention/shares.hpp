#pragma once
// Shares of split tiles. The tiles of a full attention that are too few for one more round of all CTAs are split along
// their keys, so that every CTA has an equal share:
//
//   tiles      | 0 | 1 | 2 | 3 | 4 | 5 |     four CTAs, six tiles: one round, and two left over
//   round        CTA 0 .. 3    |       |
//   shares                     |0|1|2|3|     half a tile for each CTA
//
// The CTA that finishes the last part of a tile adds up all of its parts in their order, so that every run gives the
// same result.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/attention/schedule.hpp"

namespace xstage::schedule {

/// A part of a tile. `parts` 1: the whole tile, or all that is left of it.
struct AttentionShare {
  AttentionTile tile;
  std::int32_t part;
  std::int32_t parts;
  std::int32_t first_slot;  // first slot of the tile's parts: part p writes its results to slot first_slot + p
  std::int32_t counter;     // number of the tile among the split ones
};

/// Upper bound of the parts of one CTA: its share may end in one tile and begin in another.
inline constexpr std::int32_t shares_each = 2;
/// Smallest share: fewer blocks are not worth the exchange.
inline constexpr std::int32_t least_share_blocks = 2;

/// Tiles before this one are dealt out whole.
inline std::int32_t whole_tiles(const AttentionSchedule& schedule, std::int32_t ctas) {
  return schedule.tiles() / ctas * ctas;
}

namespace shares_detail {

/// Begin of CTA `cta`'s share, in key blocks of the tiles that are left. It moves to the edge of a tile if that is
/// close.
inline std::int64_t share_begin(std::int64_t left, std::int64_t blocks, std::int64_t cta, std::int64_t ctas) {
  const std::int64_t begin = cta * left * blocks / ctas;
  const std::int64_t within = begin % blocks;
  if (within < least_share_blocks) {
    return begin - within;
  }
  return blocks - within < least_share_blocks ? begin + blocks - within : begin;
}

/// Number of CTAs that have a share. It is less than `ctas` where shares would be too small. No share is longer than a
/// tile.
inline std::int64_t sharing_ctas(std::int64_t left, std::int64_t blocks, std::int64_t ctas) {
  return std::min(ctas, std::max(left, left * blocks / least_share_blocks));
}

}  // namespace shares_detail

/// The shares as [CTA, shares_each]; empty ones have block_end 0.
inline std::vector<AttentionShare> split_left_over(const AttentionSchedule& schedule, std::int32_t ctas) {
  const std::int32_t first = whole_tiles(schedule, ctas);
  const std::int64_t left = schedule.tiles() - first;
  const std::int64_t blocks = schedule.key_blocks();
  const std::int64_t sharing = shares_detail::sharing_ctas(left, blocks, ctas);
  std::vector<AttentionShare> shares(static_cast<std::size_t>(ctas * shares_each), AttentionShare{});
  std::vector<std::vector<AttentionShare*>> parts_of(static_cast<std::size_t>(left));
  for (std::int64_t cta = 0; cta < sharing; ++cta) {
    std::int64_t begin = shares_detail::share_begin(left, blocks, cta, sharing);
    const std::int64_t end = shares_detail::share_begin(left, blocks, cta + 1, sharing);
    for (std::int64_t share = 0; begin < end; ++share) {
      const std::int64_t number = begin / blocks;
      const std::int64_t share_end = std::min(end, (number + 1) * blocks);
      AttentionShare& next = shares[static_cast<std::size_t>(cta * shares_each + share)];
      next.tile = schedule.tile(first + static_cast<std::int32_t>(number));
      next.tile.block_begin = static_cast<std::int32_t>(begin - number * blocks);
      next.tile.block_end = static_cast<std::int32_t>(share_end - number * blocks);
      next.counter = static_cast<std::int32_t>(number);
      parts_of[static_cast<std::size_t>(number)].push_back(&next);
      begin = share_end;
    }
  }
  std::int32_t slot = 0;
  for (const std::vector<AttentionShare*>& parts : parts_of) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      parts[part]->part = static_cast<std::int32_t>(part);
      parts[part]->parts = static_cast<std::int32_t>(parts.size());
      parts[part]->first_slot = slot;
    }
    slot += static_cast<std::int32_t>(parts.size());
  }
  return shares;
}

}  // namespace xstage::schedule
