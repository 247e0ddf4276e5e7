#pragma once
// A warp that dispatches some of a rank's tokens: lane k has the token's choice k. Each token is read once:
//
//   token --> shared --> all of its rows on this rank
//                    --> the first of its rows on each peer, whose copiers make the others
//   routes of the token --> all ranks: which rows it has there, and their router weights

#include "ops/moe/device/dispatch_places.cuh"

namespace xstage::kernels {

template <class Delay>
class DispatchSender {
 public:
  /// All senders of the rank share its tokens, in the order of CTAs and warps.
  __device__ DispatchSender(const DispatchLaunch& launch, const DispatchShared& shared, const RolePlace& place,
                            const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        sender_(place.warp),
        tokens_(MoeTokenRange::of(launch.exchange.tokens, place.block * launch.senders + place.warp,
                                  place.blocks * launch.senders)),
        pieces_{launch.exchange.row_bytes, launch.ring.stage_bytes},
        ring_(shared.ring(place.warp)),
        delay_(delay) {}

  __device__ void prepare() const { ring_.prepare(launch_.ring.stages); }

  /// Loads the first pieces without a wait, since the tokens are this rank's own.
  __device__ void load_first() {
    load_up_to(first_pieces);
    read_choice(tokens_.begin);
  }

  __device__ void run() {
    if (shared_.words().failed != 0) {
      ring_.drop();  // peers may still read the destination; they learn of the failure from the abort word
      note(MoeProgress::stopped);
      return;
    }
    load_more();
#pragma unroll 1
    for (std::int32_t token = tokens_.begin; token < tokens_.end; ++token) {
      send(token);
    }
    ring_.await_all_stores();
    note(MoeExchangePad::all_sent);
  }

 private:
  // Fewer than the ring holds: the polls of the peers' counts would queue behind more of them.
  static constexpr std::int32_t first_pieces = 2;

  __device__ void load_more() { load_up_to(tokens_.count() * pieces_.count()); }

  __device__ void load_up_to(std::int32_t most) {
    const std::int32_t all = min(most, tokens_.count() * pieces_.count());
#pragma unroll 1
    while (ring_.loaded() < all && ring_.has_room()) {
      const std::int64_t token = tokens_.begin + ring_.loaded() / pieces_.count();
      const std::int32_t piece = ring_.loaded() % pieces_.count();
      ring_.load(launch_.tokens_in + token * exchange_.row_bytes + std::int64_t{piece} * pieces_.piece_bytes,
                 pieces_.bytes(piece));
    }
  }

  /// Reads the choice that send() of that token will need; the latency is hidden behind the token before it.
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
    const std::int32_t owner = valid ? expert_ / exchange_.experts_per_rank : max_world + lane_index();
    const std::int32_t row = take_row(valid);
    leave_routes(token, owner, row);
    const bool first_of_owner = (__match_any_sync(0xFFFFFFFFU, owner) & lanes_below()) == 0U;
    const bool travels = valid && (owner == exchange_.call.rank || first_of_owner);
    char* target = travels ? launch_.peer_tokens[owner] + std::int64_t{row} * exchange_.row_bytes : nullptr;
    read_choice(token + 1);
    const std::uint32_t lanes = __ballot_sync(0xFFFFFFFFU, travels);
    store_pieces(target, lanes, lanes & __ballot_sync(0xFFFFFFFFU, owner == exchange_.call.rank));
  }

  /// The row of this lane's choice. If several choices of a token have the same expert, their rows are in the same
  /// order.
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

  /// Writes the route into every rank's table, and weight and origin of each row here, as copiers do for tokens of
  /// peers.
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
        route.row = MoeRoute::elsewhere(owner);
      }
      exchange_.routes[table][place] = route;
    }
    if (owner == rank) {
      exchange_.rows.weights[row] = weight_;
      exchange_.rows.origins[row] = {rank, token * exchange_.top_k + lane_index()};
    }
  }

  /// Stores all pieces of a token. `own` has the bits of those lanes whose row is on this rank.
  __device__ void store_pieces(char* target, std::uint32_t lanes, std::uint32_t own) {
#pragma unroll 1
    for (std::int32_t piece = 0; piece < pieces_.count(); ++piece) {
      ring_.await_piece();
      delay_();
      const std::int64_t offset = std::int64_t{piece} * pieces_.piece_bytes;
      each_bit(lanes & ~own,
               [&](std::int32_t lane) { ring_.store(from_lane(target, lane) + offset, pieces_.bytes(piece)); });
      each_bit(own, [&](std::int32_t lane) {
        ring_.store_first_out(from_lane(target, lane) + offset, pieces_.bytes(piece));
      });
      ring_.end_piece();
      load_more();
      if (ring_.complete() >= (complete_tokens_ + 1) * pieces_.count()) {
        ++complete_tokens_;
        note(static_cast<std::uint32_t>(complete_tokens_));
      }
    }
  }

  /// Notes for all peers that `tokens` of this warp's tokens have arrived there.
  __device__ void note(std::uint32_t tokens) {
    shared_.progress().note_of_warp(lane_index() < exchange_.call.world, sender_, lane_index(), tokens, delay_);
  }

  [[nodiscard]] __device__ static std::uint32_t lanes_below() {
    return (1U << static_cast<unsigned>(lane_index())) - 1U;
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const std::int32_t sender_;
  const MoeTokenRange tokens_;
  const MoePieces pieces_;
  MoeStageRing ring_;
  Delay delay_;
  std::int32_t complete_tokens_ = 0;      // tokens whose stores have been performed
  std::int32_t expert_ = MoeRoute::none;  // expert of the next token
  float weight_ = 0.0F;
};

}  // namespace xstage::kernels
