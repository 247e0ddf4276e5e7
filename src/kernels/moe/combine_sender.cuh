#pragma once
// A warp that sends results back, of some rows of every token: all sending warps of a CTA walk through the same tokens
// and take turns at pieces of their rows. In the order of tokens, not of experts: tokens then become complete evenly
// over time, and their ranks add them up while others are on their way.

#include "kernels/moe/combine_shared.cuh"

namespace xstage::kernels {

template <class Delay>
class CombineSender {
 public:
  __device__ CombineSender(const CombineLaunch& launch, std::int32_t block, std::int32_t blocks, std::int32_t sender,
                           const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        call_(launch.exchange.call, block),
        block_(block),
        blocks_(blocks),
        sender_(sender),
        piece_bytes_(launch.ring.stage_bytes),
        ring_(CombineShared::ring(launch, sender)),
        loaded_(CombineShared::pieces(launch, sender)),
        delay_(delay) {}

  __device__ void prepare() const { ring_.prepare(CombineLayout::stages_of(launch_)); }

  __device__ void run(std::uint32_t epoch) {
    if (!may_store(epoch)) {
      note(is_owner(), MoeProgress::stopped);
      return;
    }
    find_tokens();
    if (longest_ <= 1) {
      ring_.become(launch_.ring_for_few);
      piece_bytes_ = launch_.ring_for_few.stage_bytes;
    }
    send_all();
#pragma unroll 1
    while (!ring_.is_drained()) {
      store_oldest();
    }
    ring_.await_all_stores();
    note(is_owner(), MoeExchangePad::all_sent);
  }

 private:
  /// Whether peers' slots are free: they have entered this call, or a dispatch before it that nobody gave up.
  [[nodiscard]] __device__ bool may_store(std::uint32_t epoch) const {
    bool may = true;
    if (lane_index() == 0) {
      may = launch_.enters != 0 ? call_.await_peers(epoch) : nobody_gave_up(epoch);
    }
    return __shfl_sync(0xFFFFFFFFU, may ? 1 : 0, 0) != 0;
  }

  /// A rank without tokens waits for nothing else in combine, and must be told all the same.
  [[nodiscard]] __device__ bool nobody_gave_up(std::uint32_t epoch) const {
    if (load_relaxed(call_.own_signal(CallPad::abort)) == 0U) {
      return true;
    }
    report_expiry(call_.waits(), {WaitSite::end_of_call, exchange_.call.rank, 0, epoch}, 0, 0, 0, true);
    return false;
  }

  /// A token, or part of one, of this CTA's share of a rank's tokens.
  struct Item {
    std::int32_t owner;
    std::int32_t number;
  };

  /// Lane k keeps the share of rank k's tokens that CTAs with this one's number have, on whatever rank.
  __device__ void find_tokens() {
    if (is_owner() && lane_index() != exchange_.call.rank) {
      parts_ = CombineParts::of(__ldcg(exchange_.tokens_of + lane_index()), exchange_.row_bytes, block_, blocks_);
    }
    longest_ = __reduce_max_sync(0xFFFFFFFFU, parts_.own.count());
  }

  /// Where the rows of a token are is read while the one before it is sent.
  __device__ void send_all() {
    Item item = next({exchange_.call.rank, -1});
    std::int32_t row = read_row(item);
#pragma unroll 1
    while (item.number < longest_) {
      const Item following = next(item);
      const std::int32_t following_row = read_row(following);
      send(item, row);
      note_token(item.owner, item.number);
      item = following;
      row = following_row;
    }
  }

  /// Tokens of all peers in turn; each rank begins with another peer.
  [[nodiscard]] __device__ Item next(Item item) const {
    do {
      item.owner = item.owner + 1 == exchange_.call.world ? 0 : item.owner + 1;
      if (item.number < 0 || item.owner == exchange_.call.rank) {
        ++item.number;
        item.owner = (exchange_.call.rank + 1) % exchange_.call.world;
      }
    } while (item.number < longest_ && item.number >= of_owner(parts_.own.count(), item));
    return item;
  }

  [[nodiscard]] __device__ static std::int32_t of_owner(std::int32_t value, const Item& item) {
    return __shfl_sync(0xFFFFFFFFU, value, item.owner);
  }
  [[nodiscard]] __device__ std::int32_t part(const Item& item) const {
    return of_owner(parts_.own.begin, item) + item.number;
  }
  /// The slot of the token's first choice, on its rank.
  [[nodiscard]] __device__ std::int64_t first_slot(const Item& item) const {
    return std::int64_t{part(item) / of_owner(parts_.count, item)} * exchange_.top_k;
  }

  /// The row of this lane's choice on this rank; negative: it has none.
  [[nodiscard]] __device__ std::int32_t read_row(const Item& item) const {
    const std::int64_t table = std::int64_t{item.owner} * exchange_.most_tokens * exchange_.top_k;
    const std::int64_t slot = table + first_slot(item) + lane_index();
    const bool reads = item.number < longest_ && lane_index() < exchange_.top_k;
    return reads ? __ldcg(&exchange_.routes[exchange_.call.rank][slot].row) : MoeRoute::none;
  }

  __device__ void send(const Item& item, std::int32_t row) {
    const std::int64_t slot = first_slot(item);
    const std::int32_t part_bytes = of_owner(parts_.bytes, item);
    const std::int64_t begin = std::int64_t{part(item) % of_owner(parts_.count, item)} * part_bytes;
    const MoePieces pieces{min(part_bytes, exchange_.row_bytes - static_cast<std::int32_t>(begin)), piece_bytes_};
    each_bit(__ballot_sync(0xFFFFFFFFU, row >= 0), [&](std::int32_t lane) {
      const std::int64_t row_bytes = exchange_.row_bytes;
      const char* from = exchange_.rows.results + __shfl_sync(0xFFFFFFFFU, row, lane) * row_bytes + begin;
      char* to = launch_.slots[item.owner] + (slot + lane) * row_bytes + begin;
#pragma unroll 1
      for (std::int32_t piece = 0; piece < pieces.count(); ++piece) {
        if (turn_ == sender_) {
          const std::int64_t offset = std::int64_t{piece} * piece_bytes_;
          load(from + offset, to + offset, pieces.bytes(piece));
        }
        turn_ = turn_ + 1 == launch_.senders ? 0 : turn_ + 1;
      }
    });
  }

  __device__ void load(const char* from, char* to, std::int32_t bytes) {
#pragma unroll 1
    while (!ring_.has_room()) {
      store_oldest();
    }
    if (lane_index() == 0) {
      loaded_[ring_.load_stage()] = {to, bytes};
    }
    ring_.load(from, bytes);
  }

  __device__ void store_oldest() {
    ring_.await_piece();
    delay_();
    const SentPiece piece = loaded_[ring_.store_stage()];
    ring_.store(piece.to, piece.bytes);
    ring_.end_piece();
    const bool arrived = waits_ && ring_.complete() >= pending_piece_;
    if (__any_sync(0xFFFFFFFFU, arrived)) {
      const std::uint32_t most = most_of_owner(arrived ? pending_tokens_ : 0U);
      note(arrived && pending_tokens_ == most, pending_tokens_);
      waits_ = waits_ && !arrived;
    }
  }

  [[nodiscard]] __device__ static std::int32_t lane_owner() { return lane_index() % max_world; }
  [[nodiscard]] __device__ bool is_owner() const { return lane_index() < exchange_.call.world; }

  /// The largest of the values that the lanes of one owner have.
  [[nodiscard]] __device__ static std::uint32_t most_of_owner(std::uint32_t value) {
#pragma unroll
    for (std::int32_t distance = max_world; distance < 32; distance *= 2) {
      value = max(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    return value;
  }

  /// Each rank has four lanes that keep what it is to be told: tokens that are complete when so many pieces are. A
  /// fifth one, that comes while their stores are on their way, shares the word of one behind it.
  __device__ void note_token(std::int32_t owner, std::int32_t number) {
    if (lane_index() == owner + max_world * (number % (32 / max_world)) && !waits_) {
      waits_ = true;
      pending_piece_ = ring_.loaded();
      pending_tokens_ = static_cast<std::uint32_t>(number) + 1U;
    }
  }

  /// One lane for each owner.
  __device__ void note(bool notes, std::uint32_t tokens) {
    delay_();
    __syncwarp();
    if (notes) {
      CombineShared::progress(launch_).note(sender_, lane_owner(), tokens);
    }
  }

  const CombineLaunch& launch_;
  const MoeExchange& exchange_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t sender_;
  std::int32_t piece_bytes_;
  MoeStageRing ring_;
  SentPiece* const loaded_;
  Delay delay_;
  CombineParts parts_{1, 0, {}};
  std::int32_t longest_ = 0;  // the most tokens, or parts of them, of a rank
  std::int32_t turn_ = 0;     // the sender that takes the next piece
  bool waits_ = false;
  std::int32_t pending_piece_ = 0;
  std::uint32_t pending_tokens_ = 0;
};

}  // namespace xstage::kernels
