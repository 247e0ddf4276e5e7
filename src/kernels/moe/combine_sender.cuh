#pragma once
// A warp that sends results back, of some rows of every token: all sending warps of a CTA walk through the same tokens
// and take turns at pieces of their rows. In the order of tokens, not of experts: tokens then become complete evenly
// over time, and their ranks add them up while others are on their way.

#include "kernels/moe/combine_shared.cuh"

namespace xstage::kernels {

class CombineSender {
 public:
  __device__ CombineSender(const CombineLaunch& launch, std::int32_t block, std::int32_t blocks, std::int32_t sender)
      : launch_(launch),
        exchange_(launch.exchange),
        call_(launch.exchange.call, block),
        block_(block),
        blocks_(blocks),
        sender_(sender),
        pieces_{launch.exchange.row_bytes, launch.sender_ring.stage_bytes},
        ring_(CombineShared::ring(launch, sender)),
        loaded_(CombineShared::pieces(launch, sender)) {}

  __device__ void prepare() const { ring_.prepare(); }

  __device__ void run(std::uint32_t epoch) {
    epoch_ = epoch;
    if (!may_store()) {
      return;
    }
    const std::int32_t longest = most_tokens();
#pragma unroll 1
    for (std::int32_t number = 0; number < longest; ++number) {
#pragma unroll 1
      for (std::int32_t distance = 1; distance < exchange_.call.world; ++distance) {
        const std::int32_t owner = (exchange_.call.rank + distance) % exchange_.call.world;
        const MoeTokenRange tokens = tokens_of(owner);
        if (number < tokens.count()) {
          send(owner, tokens.begin + number);
          note_token(owner, number);
        }
      }
    }
#pragma unroll 1
    while (!ring_.is_drained()) {
      store_oldest();
    }
    ring_.await_all_stores();
    post(lane_index() < exchange_.call.world && lane_index() != exchange_.call.rank, MoeExchangePad::all_sent);
  }

 private:
  /// Whether peers' slots are free: they have entered this call, or a dispatch before it that nobody gave up.
  [[nodiscard]] __device__ bool may_store() const {
    bool may = true;
    if (lane_index() == 0) {
      may = launch_.enters != 0 ? call_.await_peers(epoch_) : nobody_gave_up();
    }
    return __shfl_sync(0xFFFFFFFFU, may ? 1 : 0, 0) != 0;
  }

  /// A rank without tokens waits for nothing else in combine, and must be told all the same.
  [[nodiscard]] __device__ bool nobody_gave_up() const {
    if (load_relaxed(call_.own_signal(CallPad::abort)) == 0U) {
      return true;
    }
    report_expiry(call_.waits(), {WaitSite::end_of_call, exchange_.call.rank, 0, epoch_}, 0, 0, 0, true);
    return false;
  }

  /// This CTA's share of a rank's tokens, on whatever rank.
  [[nodiscard]] __device__ MoeTokenRange tokens_of(std::int32_t rank) const {
    return MoeTokenRange::of(__ldcg(exchange_.tokens_of + rank), block_, blocks_);
  }
  [[nodiscard]] __device__ std::int32_t most_tokens() const {
    std::int32_t most = 0;
#pragma unroll 1
    for (std::int32_t rank = 0; rank < exchange_.call.world; ++rank) {
      most = rank == exchange_.call.rank ? most : max(most, tokens_of(rank).count());
    }
    return most;
  }

  __device__ void send(std::int32_t owner, std::int32_t token) {
    std::int32_t row = MoeRoute::none;
    const std::int64_t first_slot = std::int64_t{token} * exchange_.top_k;
    if (lane_index() < exchange_.top_k) {
      const std::int64_t table = std::int64_t{owner} * exchange_.most_tokens * exchange_.top_k;
      const MoeRoute* route = exchange_.routes[exchange_.call.rank] + table + first_slot + lane_index();
      row = __ldcg(&route->row);
    }
    each_bit(__ballot_sync(0xFFFFFFFFU, row >= 0), [&](std::int32_t lane) {
      const std::int64_t row_bytes = exchange_.row_bytes;
      const char* from = exchange_.rows.results + __shfl_sync(0xFFFFFFFFU, row, lane) * row_bytes;
      char* to = launch_.slots[owner] + (first_slot + lane) * row_bytes;
#pragma unroll 1
      for (std::int32_t piece = 0; piece < pieces_.count(); ++piece) {
        if (turn_ == sender_) {
          const std::int64_t offset = std::int64_t{piece} * pieces_.piece_bytes;
          load(from + offset, to + offset, pieces_.bytes(piece));
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
    ring_.load(from, bytes, true);
  }

  __device__ void store_oldest() {
    ring_.await_piece();
    const SentPiece piece = loaded_[ring_.store_stage()];
    ring_.store(piece.to, piece.bytes);
    ring_.end_piece();
    const bool arrived = waits_ && ring_.complete() >= pending_piece_;
    if (__any_sync(0xFFFFFFFFU, arrived)) {
      const std::uint32_t most = most_of_owner(arrived ? pending_tokens_ : 0U);
      post(arrived && pending_tokens_ == most, pending_tokens_);
      waits_ = waits_ && !arrived;
    }
  }

  [[nodiscard]] __device__ static std::int32_t lane_owner() { return lane_index() % max_world; }

  /// The largest of the values that the lanes of one owner have.
  [[nodiscard]] __device__ static std::uint32_t most_of_owner(std::uint32_t value) {
#pragma unroll
    for (std::int32_t distance = max_world; distance < 32; distance *= 2) {
      value = max(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    return value;
  }

  /// Each rank has four lanes that keep what it is to be told: tokens that are complete when so many pieces are. A
  /// fifth one, that comes while their stores are on their way, shares the flag of one behind it.
  __device__ void note_token(std::int32_t owner, std::int32_t number) {
    if (lane_index() == owner + max_world * (number % (32 / max_world)) && !waits_) {
      waits_ = true;
      pending_piece_ = ring_.loaded();
      pending_tokens_ = static_cast<std::uint32_t>(number) + 1U;
    }
  }

  /// Lanes tell their owners, one lane each.
  __device__ void post(bool tells, std::uint32_t tokens) const {
    if (lane_index() == 0) {
      fence_async_proxy();
    }
    __syncwarp();
    if (tells) {
      const CallParameters& call = exchange_.call;
      fence_release();
      store_relaxed(call.signals[lane_owner()] + MoeExchangePad::combine_flags(call.world, blocks_) +
                        MoeExchangePad::flag(call.rank, block_, blocks_, sender_),
                    flag_value(epoch_, tokens));
    }
    __syncwarp();
  }

  const CombineLaunch& launch_;
  const MoeExchange& exchange_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t sender_;
  const MoePieces pieces_;
  MoeStageRing ring_;
  SentPiece* const loaded_;
  std::uint32_t epoch_ = 0;
  std::int32_t turn_ = 0;  // the sender that takes the next piece
  bool waits_ = false;
  std::int32_t pending_piece_ = 0;
  std::uint32_t pending_tokens_ = 0;
};

}  // namespace xstage::kernels
