#pragma once
// Simulates CTAs that compute the tiles of an MoE schedule, by discrete events. It implements only the rules of the
// kernel: a CTA holds the tile that it has claimed until the tile is done; Linear-2 waits until all Linear-1 of its
// block is done; Linear-1 waits until the previous block in its slot of the ring is done with Linear-2.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "ops/moe/test/schedule_routing.hpp"

namespace xstage {

enum class MoeClaims { drawn, in_turn };

struct MoeRunResult {
  bool finished = false;  // false: CTAs wait for ever
  std::int64_t linear1_waits = 0;
  std::int64_t linear2_waits = 0;
  std::int32_t most_alive = 0;            // blocks with a slot of the ring
  std::vector<std::int64_t> end = {};     // of each CTA's last tile
  std::vector<std::int32_t> tiles = {};   // of each CTA
  std::vector<std::int64_t> busy = {};    // of each CTA: all its tiles last together
  std::vector<std::int64_t> waited = {};  // of each CTA, with tiles that it had claimed
};

template <typename Schedule>
class MoeRun {
 public:
  using Duration = std::function<std::int64_t(std::size_t cta, const schedule::MoeTile& tile)>;

  MoeRun(const Schedule& schedule, std::int32_t ctas, std::int32_t ring, MoeClaims claims, Duration duration)
      : schedule_(schedule),
        ring_(ring),
        claims_(claims),
        duration_(std::move(duration)),
        ctas_(static_cast<std::size_t>(ctas)),
        blocks_(static_cast<std::size_t>(schedule.blocks().blocks())) {}

  MoeRunResult run() {
    result_.end.assign(ctas_.size(), 0);
    result_.tiles.assign(ctas_.size(), 0);
    result_.busy.assign(ctas_.size(), 0);
    result_.waited.assign(ctas_.size(), 0);
    for (std::size_t cta = 0; cta < ctas_.size(); ++cta) {
      ctas_[cta].next = static_cast<std::int32_t>(cta);
      claim(cta, 0);
    }
    while (!events_.empty()) {
      const std::int64_t now = events_.top().first;
      // All tiles that end at this moment are done before any CTA checks what is done.
      std::vector<std::size_t> free;
      while (!events_.empty() && events_.top().first == now) {
        free.push_back(events_.top().second);
        events_.pop();
      }
      for (const std::size_t cta : free) {
        complete(cta, now);
      }
      wake(now);
      for (const std::size_t cta : free) {
        claim(cta, now);
      }
    }
    result_.finished = done_ == schedule_.tiles();
    return result_;
  }

 private:
  struct Cta {
    std::int32_t next = 0;  // index, of those taken in turn
    schedule::MoeTile tile{};
    std::int64_t claimed = 0;  // when
  };
  struct Block {
    std::int32_t linear1_done = 0;
    std::int32_t linear2_done = 0;
    bool alive = false;
  };

  void claim(std::size_t cta, std::int64_t now) {
    std::int32_t& next = claims_ == MoeClaims::drawn ? drawn_ : ctas_[cta].next;
    if (next >= schedule_.tiles()) {
      return;
    }
    ctas_[cta].tile = schedule_.tile(next);
    ctas_[cta].claimed = now;
    next += claims_ == MoeClaims::drawn ? 1 : static_cast<std::int32_t>(ctas_.size());
    if (may_begin(ctas_[cta].tile)) {
      begin(cta, now);
      return;
    }
    waiting_.push_back(cta);
    (ctas_[cta].tile.linear == schedule::MoeLinear::one ? result_.linear1_waits : result_.linear2_waits) += 1;
  }

  [[nodiscard]] bool may_begin(const schedule::MoeTile& tile) const {
    if (tile.linear == schedule::MoeLinear::two) {
      return blocks_[static_cast<std::size_t>(tile.block)].linear1_done == schedule_.tiling().linear1_tiles.value();
    }
    return tile.block < ring_ || blocks_[static_cast<std::size_t>(tile.block - ring_)].linear2_done ==
                                     schedule_.tiling().linear2_tiles.value();
  }

  void begin(std::size_t cta, std::int64_t now) {
    const schedule::MoeTile& tile = ctas_[cta].tile;
    Block& block = blocks_[static_cast<std::size_t>(tile.block)];
    if (!block.alive) {
      block.alive = true;
      result_.most_alive = std::max(result_.most_alive, ++alive_);
    }
    const std::int64_t duration = duration_(cta, tile);
    result_.busy[cta] += duration;
    result_.waited[cta] += now - ctas_[cta].claimed;
    events_.emplace(now + duration, cta);
  }

  void complete(std::size_t cta, std::int64_t now) {
    const schedule::MoeTile& tile = ctas_[cta].tile;
    Block& block = blocks_[static_cast<std::size_t>(tile.block)];
    (tile.linear == schedule::MoeLinear::one ? block.linear1_done : block.linear2_done) += 1;
    if (block.linear2_done == schedule_.tiling().linear2_tiles.value()) {
      --alive_;
    }
    ++done_;
    ++result_.tiles[cta];
    result_.end[cta] = now;
  }

  void wake(std::int64_t now) {
    std::vector<std::size_t> still;
    for (const std::size_t cta : waiting_) {
      if (may_begin(ctas_[cta].tile)) {
        begin(cta, now);
      } else {
        still.push_back(cta);
      }
    }
    waiting_ = std::move(still);
  }

  using Event = std::pair<std::int64_t, std::size_t>;
  Schedule schedule_;
  std::int32_t ring_;
  MoeClaims claims_;
  Duration duration_;
  std::vector<Cta> ctas_;
  std::vector<Block> blocks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::size_t> waiting_;
  std::int32_t drawn_ = 0;
  std::int32_t done_ = 0;
  std::int32_t alive_ = 0;
  MoeRunResult result_;
};

}  // namespace xstage
