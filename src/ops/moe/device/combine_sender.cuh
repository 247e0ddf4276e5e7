#pragma once
// A warp that sends single rows back. All sending warps of a CTA go through the same tokens and take turns at pieces of
// their rows.

#include "ops/moe/device/combine_peers.cuh"

namespace xstage::kernels {

template <class Delay>
class CombineSender {
 public:
  __device__ CombineSender(const CombineLaunch& launch, const CombineShared& shared, const RolePlace& place,
                           const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        peers_(launch, place),
        sender_(place.warp),
        piece_bytes_(launch.ring.stage_bytes),
        ring_(shared.ring(place.warp)),
        loaded_(shared.pieces(place.warp)),
        delay_(delay) {}

  __device__ void prepare() const { ring_.prepare(CombineLayout::stages_of(launch_)); }

  __device__ void run(std::uint32_t epoch) {
    if (!peers_.may_store(epoch)) {
      note(is_owner(), MoeProgress::stopped);
      return;
    }
    peers_.find_tokens();
    if (peers_.longest() <= 1) {
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
  /// Sends all rows. The places of a token's rows are read while the token before it is sent.
  __device__ void send_all() {
    PeerPart part = peers_.first();
    std::int32_t row = peers_.read_row(part);
#pragma unroll 1
    while (peers_.exists(part)) {
      const PeerPart following = peers_.next(part);
      const std::int32_t following_row = peers_.read_row(following);
      send(part, row);
      note_token(part.owner, part.number);
      part = following;
      row = following_row;
    }
  }

  __device__ void send(const PeerPart& part, std::int32_t row) {
    const std::int64_t slot = peers_.first_slot(part);
    const RowBytes bytes = peers_.bytes(part);
    const MoePieces pieces{bytes.count(), piece_bytes_};
    each_bit(__ballot_sync(0xFFFFFFFFU, row >= 0), [&](std::int32_t lane) {
      const std::int64_t row_bytes = exchange_.row_bytes;
      const char* from = exchange_.rows.results + __shfl_sync(0xFFFFFFFFU, row, lane) * row_bytes + bytes.begin;
      char* to = launch_.slots[part.owner] + (slot + lane) * row_bytes + bytes.begin;
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

  /// The largest value among the lanes of one owner.
  [[nodiscard]] __device__ static std::uint32_t most_of_owner(std::uint32_t value) {
#pragma unroll
    for (std::int32_t distance = max_world; distance < 32; distance *= 2) {
      value = max(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    return value;
  }

  /// Notes that a token is complete when all pieces loaded so far have been stored. Each rank has four lanes for such
  /// notes; a fifth token whose stores are in flight shares the note of a later one.
  __device__ void note_token(std::int32_t owner, std::int32_t number) {
    if (lane_index() == owner + max_world * (number % (32 / max_world)) && !waits_) {
      waits_ = true;
      pending_piece_ = ring_.loaded();
      pending_tokens_ = static_cast<std::uint32_t>(number) + 1U;
    }
  }

  /// Notes progress, in one lane for each owner.
  __device__ void note(bool notes, std::uint32_t tokens) {
    shared_.progress().note_of_warp(notes, sender_, lane_owner(), tokens, delay_);
  }

  const CombineLaunch& launch_;
  const MoeExchange& exchange_;
  const CombineShared& shared_;
  CombinePeers peers_;
  const std::int32_t sender_;
  std::int32_t piece_bytes_;
  MoeStageRing ring_;
  SentPiece* const loaded_;
  Delay delay_;
  std::int32_t turn_ = 0;  // the sender that takes the next piece
  bool waits_ = false;
  std::int32_t pending_piece_ = 0;
  std::uint32_t pending_tokens_ = 0;
};

}  // namespace xstage::kernels
