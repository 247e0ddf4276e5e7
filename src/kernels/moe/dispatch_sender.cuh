#pragma once
// A warp that dispatches some of a rank's tokens: lane k has the token's choice k. Each token is read once:
//
//   token --> shared --> all of its rows on this rank
//                    --> the first of its rows on each peer, whose copiers make the others
//   routes of the token --> all ranks: which rows it has there, and their router weights

#include "kernels/moe/dispatch_places.cuh"

namespace xstage::kernels {

class DispatchSender {
 public:
  __device__ DispatchSender(const DispatchLaunch& launch, const DispatchShared& shared, std::int32_t block,
                            std::int32_t blocks, std::int32_t sender)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, block),
        block_(block),
        blocks_(blocks),
        sender_(sender),
        tokens_(MoeTokenRange::of(launch.exchange.tokens, block * launch.senders + sender, blocks * launch.senders)),
        pieces_{launch.exchange.row_bytes, launch.sender_ring.stage_bytes},
        ring_(shared.sender_ring(sender)) {}

  __device__ void prepare() const { ring_.prepare(); }

  /// Nobody need be waited for: the tokens are this rank's own.
  __device__ void load_first() {
    load_more();
    read_choice(tokens_.begin);
  }

  __device__ void run() {
    if (shared_.words().failed != 0) {
      ring_.drop();  // peers may still read what lies there; they are told by the abort word
      return;
    }
    epoch_ = shared_.words().epoch;
#pragma unroll 1
    for (std::int32_t token = tokens_.begin; token < tokens_.end; ++token) {
      send(token);
    }
    ring_.await_all_stores();
    post(MoeExchangePad::all_sent);
  }

 private:
  __device__ void load_more() {
    const std::int32_t all = tokens_.count() * pieces_.count();
#pragma unroll 1
    while (ring_.loaded() < all && ring_.has_room()) {
      const std::int64_t token = tokens_.begin + ring_.loaded() / pieces_.count();
      const std::int32_t piece = ring_.loaded() % pieces_.count();
      ring_.load(launch_.tokens_in + token * exchange_.row_bytes + std::int64_t{piece} * pieces_.piece_bytes,
                 pieces_.bytes(piece), true);
    }
  }

  /// What send() of that token will want: its latency is hidden behind the token before it.
  __device__ void read_choice(std::int32_t token) {
    expert_ = MoeRoute::none;
    weight_ = 0.0F;
    if (token < tokens_.end && lane_index() < exchange_.top_k) {
      const std::int64_t choice = std::int64_t{token} * exchange_.top_k + lane_index();
      expert_ = __ldg(launch_.experts + choice);
      weight_ = __ldg(launch_.router_weights + choice);
    }
  }

  __device__ void send(std::int32_t token) {
    const bool valid = is_valid(expert_, weight_, exchange_.experts());
    if (!valid && expert_ != MoeRoute::none) {
      report(token);
    }
    const std::int32_t owner = valid ? expert_ / exchange_.experts_per_rank : max_world + lane_index();
    const std::int32_t row = take_row(valid);
    leave_routes(token, owner, row);
    const bool first_of_owner = (__match_any_sync(0xFFFFFFFFU, owner) & lanes_below()) == 0U;
    const bool travels = valid && (owner == exchange_.call.rank || first_of_owner);
    char* target = travels ? launch_.peer_tokens[owner] + std::int64_t{row} * exchange_.row_bytes : nullptr;
    read_choice(token + 1);
    store_pieces(target, __ballot_sync(0xFFFFFFFFU, travels));
    if (pending_piece_ == 0) {
      pending_piece_ = ring_.stored();
      pending_tokens_ = static_cast<std::uint32_t>(token + 1 - tokens_.begin);
    }
  }

  /// The row of this lane's choice. Choices of one expert within a token have theirs in order.
  __device__ std::int32_t take_row(bool valid) const {
    const std::uint32_t same = __match_any_sync(0xFFFFFFFFU, valid ? expert_ : -2 - lane_index());
    std::int32_t* next = shared_.next_row(sender_) + (valid ? expert_ : 0);
    const std::int32_t row = valid ? *next + __popc(same & lanes_below()) : MoeRoute::none;
    __syncwarp();
    if (valid && (same & lanes_below()) == 0U) {
      *next += __popc(same);
    }
    __syncwarp();
    return row;
  }

  /// In every rank's table, and what copiers do for peers: weight and origin of each row here.
  __device__ void leave_routes(std::int32_t token, std::int32_t owner, std::int32_t row) const {
    if (lane_index() >= exchange_.top_k) {
      return;
    }
    const std::int32_t rank = exchange_.call.rank;
    const std::int64_t place = (std::int64_t{rank} * exchange_.most_tokens + token) * exchange_.top_k + lane_index();
#pragma unroll 1
    for (std::int32_t table = 0; table < exchange_.call.world; ++table) {
      MoeRoute route{owner == table ? row : MoeRoute::none, weight_};
      if (table == rank && owner != rank && owner < max_world) {
        route.row = MoeRoute::elsewhere;
      }
      exchange_.routes[table][place] = route;
    }
    if (owner == rank) {
      exchange_.rows.weights[row] = weight_;
      exchange_.rows.origins[row] = {rank, token * exchange_.top_k + lane_index()};
    }
  }

  __device__ void store_pieces(char* target, std::uint32_t lanes) {
#pragma unroll 1
    for (std::int32_t piece = 0; piece < pieces_.count(); ++piece) {
      ring_.await_piece();
      each_bit(lanes, [&](std::int32_t lane) {
        ring_.store(from_lane(target, lane) + std::int64_t{piece} * pieces_.piece_bytes, pieces_.bytes(piece));
      });
      ring_.end_piece();
      load_more();
      if (pending_piece_ != 0 && ring_.complete() >= pending_piece_) {
        post(pending_tokens_);
        pending_piece_ = 0;
      }
    }
  }

  /// To all peers: so many of this warp's tokens have arrived.
  __device__ void post(std::uint32_t tokens) const {
    if (call_.alone()) {
      return;
    }
    if (lane_index() == 0) {
      fence_async_proxy();
    }
    __syncwarp();
    const CallParameters& call = exchange_.call;
    if (lane_index() < call.world && lane_index() != call.rank) {
      fence_release();
      store_relaxed(call.signals[lane_index()] + MoeExchangePad::dispatch_flags +
                        MoeExchangePad::flag(call.rank, block_, blocks_, sender_),
                    flag_value(epoch_, tokens));
    }
    __syncwarp();
  }

  __device__ void report(std::int32_t token) const {
    RoutingReport* report = launch_.report;
    if (load_relaxed(&report->raised) == 0U && atomicCAS_system(&report->raised, 0U, 1U) == 0U) {
      report->rank = exchange_.call.rank;
      report->token = token;
      report->choice = lane_index();
      report->expert = expert_;
      report->weight = weight_;
      store_release(&report->raised, 2U);
    }
  }

  [[nodiscard]] __device__ static std::uint32_t lanes_below() {
    return (1U << static_cast<unsigned>(lane_index())) - 1U;
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t sender_;
  const MoeTokenRange tokens_;
  const MoePieces pieces_;
  MoeStageRing ring_;
  std::uint32_t epoch_ = 0;
  std::int32_t expert_ = MoeRoute::none;  // of the next token
  float weight_ = 0.0F;
  // A token that peers have not been told of: complete when so many pieces are. Only one at a time: those that come
  // while the stores of this one are on their way share the flag after it.
  std::int32_t pending_piece_ = 0;
  std::uint32_t pending_tokens_ = 0;
};

}  // namespace xstage::kernels
