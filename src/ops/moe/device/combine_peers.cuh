#pragma once
// The tokens of peers whose results a CTA sends back: its share of each peer's tokens, with the peers in turn. They are
// ordered by token and not by expert, because tokens then become complete evenly over time, and their ranks add them up
// while others are in flight. All methods are for whole warps.

#include "ops/moe/device/exchange_shared.cuh"

namespace xstage::kernels {

/// A token, or part of one, of a CTA's share of a rank's tokens.
struct PeerPart {
  std::int32_t owner;
  std::int32_t number;
};

class CombinePeers {
 public:
  __device__ CombinePeers(const CombineLaunch& launch, const RolePlace& place)
      : launch_(launch),
        exchange_(launch.exchange),
        call_(launch.exchange.call, place.block),
        block_(place.block),
        blocks_(place.blocks) {}

  /// Whether the slots of peers are free: the peers have entered this call, or no wait gave up in the dispatch before
  /// it.
  [[nodiscard]] __device__ bool may_store(std::uint32_t epoch) const {
    bool may = true;
    if (lane_index() == 0) {
      may = launch_.enters != 0 ? call_.await_peers(epoch) : nobody_gave_up(epoch);
    }
    return __shfl_sync(0xFFFFFFFFU, may ? 1 : 0, 0) != 0;
  }

  /// To be called before the methods below. Lane k keeps the share of rank k's tokens that belongs to the CTAs with
  /// this one's number on every rank.
  __device__ void find_tokens() {
    if (lane_index() < exchange_.call.world && lane_index() != exchange_.call.rank) {
      parts_ = CombineParts::of(__ldcg(exchange_.tokens_of + lane_index()), exchange_.row_bytes, block_, blocks_);
    }
    longest_ = __reduce_max_sync(0xFFFFFFFFU, parts_.own.count());
  }

  /// The largest number of parts of a peer.
  [[nodiscard]] __device__ std::int32_t longest() const { return longest_; }
  /// The number of parts of all peers.
  [[nodiscard]] __device__ std::int32_t count() const { return __reduce_add_sync(0xFFFFFFFFU, parts_.own.count()); }
  /// Bytes of the longest part.
  [[nodiscard]] __device__ std::int32_t most_bytes() const { return __reduce_max_sync(0xFFFFFFFFU, parts_.bytes); }
  [[nodiscard]] __device__ bool exists(const PeerPart& part) const { return part.number < longest_; }

  /// Tokens of all peers in turn; each rank begins with another peer.
  [[nodiscard]] __device__ PeerPart first() const { return next({exchange_.call.rank, -1}); }
  [[nodiscard]] __device__ PeerPart next(PeerPart part) const {
    do {
      part.owner = part.owner + 1 == exchange_.call.world ? 0 : part.owner + 1;
      if (part.number < 0 || part.owner == exchange_.call.rank) {
        ++part.number;
        part.owner = (exchange_.call.rank + 1) % exchange_.call.world;
      }
    } while (exists(part) && part.number >= of_owner(parts_.own.count(), part));
    return part;
  }

  /// Number of parts, of the rank for which this lane stands, that come before `part`.
  [[nodiscard]] __device__ std::int32_t before(const PeerPart& part) const {
    return part.number + (turn_of(lane_index()) < turn_of(part.owner) ? 1 : 0);
  }

  /// The slot of the token's first choice, on its rank.
  [[nodiscard]] __device__ std::int64_t first_slot(const PeerPart& part) const {
    return std::int64_t{index(part) / of_owner(parts_.count, part)} * exchange_.top_k;
  }
  /// The row of this lane's choice on this rank; negative if it has none.
  [[nodiscard]] __device__ std::int32_t read_row(const PeerPart& part) const {
    const std::int64_t table = std::int64_t{part.owner} * exchange_.most_tokens * exchange_.top_k;
    const std::int64_t slot = table + first_slot(part) + lane_index();
    const bool reads = exists(part) && lane_index() < exchange_.top_k;
    return reads ? __ldcg(&exchange_.routes[exchange_.call.rank][slot].row) : MoeRoute::none;
  }
  /// Bytes of a row that belong to the part.
  [[nodiscard]] __device__ RowBytes bytes(const PeerPart& part) const {
    return RowBytes::of_part(index(part) % of_owner(parts_.count, part), of_owner(parts_.bytes, part),
                             exchange_.row_bytes);
  }

 private:
  /// Checks the abort word and reports an abort: a rank without tokens has no other wait in combine by which it would
  /// learn of it.
  [[nodiscard]] __device__ bool nobody_gave_up(std::uint32_t epoch) const {
    if (load_relaxed(call_.own_signal(CallPad::abort)) == 0U) {
      return true;
    }
    report_expiry(call_.waits(), {WaitSite::end_of_call, exchange_.call.rank, 0, epoch}, 0, 0, 0, true);
    return false;
  }

  /// Position of a rank in the order of turns.
  [[nodiscard]] __device__ std::int32_t turn_of(std::int32_t rank) const {
    return rank > exchange_.call.rank ? rank : rank + exchange_.call.world;
  }
  [[nodiscard]] __device__ static std::int32_t of_owner(std::int32_t value, const PeerPart& part) {
    return __shfl_sync(0xFFFFFFFFU, value, part.owner);
  }
  [[nodiscard]] __device__ std::int32_t index(const PeerPart& part) const {
    return of_owner(parts_.own.begin, part) + part.number;
  }

  const CombineLaunch& launch_;
  const MoeExchange& exchange_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  CombineParts parts_{1, 0, {}};
  std::int32_t longest_ = 0;
};

}  // namespace xstage::kernels
