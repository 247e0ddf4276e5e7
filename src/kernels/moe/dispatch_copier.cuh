#pragma once
// A warp that finishes what some warps of peers send: a token crosses once, into the first of its rows here; the copier
// makes the others, and leaves weight and origin of each. Soon after the arrival, while the row is in L2. It turns from
// one sender to the next with every token, as they come; when it has heard the last of all of them, all is here.

#include "kernels/moe/dispatch_places.cuh"

namespace xstage::kernels {

class DispatchCopier {
 public:
  __device__ DispatchCopier(const DispatchLaunch& launch, const DispatchShared& shared, std::int32_t block,
                            std::int32_t blocks, std::int32_t copier)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, block),
        block_(block),
        blocks_(blocks),
        copier_(copier),
        pieces_{launch.exchange.row_bytes, launch.copier_ring.stage_bytes},
        ring_(shared.copier_ring(copier)),
        loaded_(shared.pieces(copier)) {}

  __device__ void prepare() const { ring_.prepare(); }

  __device__ void run() {
    epoch_ = shared_.words().epoch;
    bool goes_on = shared_.words().failed == 0;
    const std::int32_t longest = most_tokens();
#pragma unroll 1
    for (std::int32_t number = 0; goes_on && number <= longest; ++number) {
#pragma unroll 1
      for (std::int32_t stream = copier_; goes_on && stream < streams(); stream += launch_.copiers) {
        goes_on = take(source_of(stream), stream % launch_.senders, number);
      }
    }
    drain();
    ring_.await_all_stores();
  }

 private:
  /// Of all peers' CTAs with this one's number.
  [[nodiscard]] __device__ std::int32_t streams() const { return (exchange_.call.world - 1) * launch_.senders; }
  /// Each rank begins with another one.
  [[nodiscard]] __device__ std::int32_t source_of(std::int32_t stream) const {
    return (exchange_.call.rank + 1 + stream / launch_.senders) % exchange_.call.world;
  }
  [[nodiscard]] __device__ MoeTokenRange tokens_of(std::int32_t source, std::int32_t sender) const {
    return MoeTokenRange::of(shared_.words().tokens_of[source], block_ * launch_.senders + sender,
                             blocks_ * launch_.senders);
  }
  [[nodiscard]] __device__ std::int32_t most_tokens() const {
    std::int32_t most = 0;
#pragma unroll 1
    for (std::int32_t stream = copier_; stream < streams(); stream += launch_.copiers) {
      most = max(most, tokens_of(source_of(stream), stream % launch_.senders).count());
    }
    return most;
  }

  /// The token of that number of a stream; behind its last one the word that nothing more will come. False when the
  /// wait was given up.
  __device__ bool take(std::int32_t source, std::int32_t sender, std::int32_t number) {
    const MoeTokenRange tokens = tokens_of(source, sender);
    if (number > tokens.count()) {
      return true;
    }
    const bool is_end = number == tokens.count();
    if (!await(source, sender, is_end ? MoeExchangePad::all_sent : static_cast<std::uint32_t>(number) + 1U)) {
      return false;
    }
    if (!is_end) {
      copy(source, tokens.begin + number);
    }
    return true;
  }

  __device__ bool await(std::int32_t source, std::int32_t sender, std::uint32_t tokens) {
    const std::uint32_t flag = MoeExchangePad::flag(source, block_, blocks_, sender);
    const std::uint32_t* word = call_.own_signal(MoeExchangePad::dispatch_flags + flag);
    const std::uint32_t expected = flag_value(epoch_, tokens);
    if (__shfl_sync(0xFFFFFFFFU, reached(load_acquire(word), expected) ? 1 : 0, 0) == 0) {
      drain();  // what has come need not wait for what has not
    }
    bool arrived = true;
    if (lane_index() == 0) {
      arrived = wait_at_least(call_.waits(), {MoeWaitSite::sent_tokens, source, flag, epoch_}, word, expected);
      fence_async_proxy();
    }
    __syncwarp();
    return __shfl_sync(0xFFFFFFFFU, arrived ? 1 : 0, 0) != 0;
  }

  __device__ void copy(std::int32_t source, std::int32_t token) {
    const MoeRoute route = read_route(source, token);
    if (route.row >= 0) {
      exchange_.rows.weights[route.row] = route.weight;
      exchange_.rows.origins[route.row] = {source, token * exchange_.top_k + lane_index()};
    }
    const std::uint32_t with_rows = __ballot_sync(0xFFFFFFFFU, route.row >= 0);
    if ((with_rows & (with_rows - 1U)) == 0U) {
      return;  // no row, or one that is here
    }
    const std::int32_t first = __ffs(static_cast<std::int32_t>(with_rows)) - 1;
    const char* from = row_address(__shfl_sync(0xFFFFFFFFU, route.row, first));
#pragma unroll 1
    for (std::int32_t piece = 0; piece < pieces_.count(); ++piece) {
#pragma unroll 1
      while (!ring_.has_room()) {
        store_oldest();
      }
      CopiedPiece& note = loaded_[ring_.load_stage()];
      if (lane_index() < most_moe_choices) {
        note.row[lane_index()] = lane_index() == first ? MoeRoute::none : route.row;
      }
      note.piece = piece;
      __syncwarp();
      ring_.load(from + std::int64_t{piece} * pieces_.piece_bytes, pieces_.bytes(piece), false);
    }
  }

  /// Lanes without a choice have no row.
  [[nodiscard]] __device__ MoeRoute read_route(std::int32_t source, std::int32_t token) const {
    if (lane_index() >= exchange_.top_k) {
      return {MoeRoute::none, 0.0F};
    }
    const std::int64_t place = (std::int64_t{source} * exchange_.most_tokens + token) * exchange_.top_k + lane_index();
    const float2 route = __ldcg(reinterpret_cast<const float2*>(exchange_.routes[exchange_.call.rank] + place));
    return {__float_as_int(route.x), route.y};
  }

  [[nodiscard]] __device__ char* row_address(std::int32_t row) const {
    return exchange_.rows.tokens + std::int64_t{row} * exchange_.row_bytes;
  }

  __device__ void store_oldest() {
    const CopiedPiece& note = loaded_[ring_.store_stage()];
    const std::int32_t row = lane_index() < most_moe_choices ? note.row[lane_index()] : MoeRoute::none;
    const std::int32_t piece = note.piece;
    ring_.await_piece();
    each_bit(__ballot_sync(0xFFFFFFFFU, row >= 0), [&](std::int32_t lane) {
      char* target = row_address(__shfl_sync(0xFFFFFFFFU, row, lane));
      ring_.store(target + std::int64_t{piece} * pieces_.piece_bytes, pieces_.bytes(piece));
    });
    ring_.end_piece();
  }

  __device__ void drain() {
#pragma unroll 1
    while (!ring_.is_drained()) {
      store_oldest();
    }
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t copier_;
  const MoePieces pieces_;
  MoeStageRing ring_;
  CopiedPiece* const loaded_;
  std::uint32_t epoch_ = 0;
};

}  // namespace xstage::kernels
