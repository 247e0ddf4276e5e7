#pragma once
// A warp that sends partial sums. The rows that this rank's experts computed for a token of a peer are added up here
// and cross the fabric as one row. Groups of these warps take turns at the tokens, and sums are stored from registers.

#include "ops/moe/device/combine_add.cuh"
#include "ops/moe/device/combine_peers.cuh"

namespace xstage::kernels {

template <class Delay>
class CombinePartialSender {
 public:
  __device__ CombinePartialSender(const CombineLaunch& launch, const CombineShared& shared, const RolePlace& place,
                                  const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        peers_(launch, place),
        sender_(place.warp),
        delay_(delay) {}

  __device__ void run(std::uint32_t epoch) {
    if (!peers_.may_store(epoch)) {
      note(MoeProgress::stopped);
      return;
    }
    peers_.find_tokens();
    const std::int32_t groups = groups_of();
    const std::int32_t warps = launch_.senders / groups;
    if (sender_ / warps < groups) {
      send_all(RowAdder(exchange_.top_k, warps, sender_ % warps), sender_ / warps, groups);
    }
    note(MoeExchangePad::all_sent);
  }

 private:
  /// Number of groups: not more than there is work for, and more groups for short parts than for whole rows.
  [[nodiscard]] __device__ std::int32_t groups_of() const {
    const std::int32_t warps_with_work = min(launch_.senders, (peers_.most_bytes() + 511) / 512);
    const std::int32_t most = max(launch_.sender_groups, launch_.senders / max(1, warps_with_work));
    return min(most, max(1, peers_.count()));
  }

  /// Sends every `groups`th token, from this group's first one on. The places of a token's rows are read while the
  /// token before it is added up.
  __device__ void send_all(const RowAdder& adder, std::int32_t group, std::int32_t groups) {
    PeerPart part = advanced(peers_.first(), group);
    std::int32_t row = peers_.read_row(part);
#pragma unroll 1
    while (peers_.exists(part)) {
      const PeerPart following = advanced(part, groups);
      const std::int32_t following_row = peers_.read_row(following);
      send(adder, part, row);
      if (peers_.exists(following)) {
        // Noted for all peers: adders wait for every sender, also for one that never sends a row for their tokens.
        note(static_cast<std::uint32_t>(peers_.before(following)));
      }
      part = following;
      row = following_row;
    }
  }

  [[nodiscard]] __device__ PeerPart advanced(PeerPart part, std::int32_t parts) const {
#pragma unroll 1
    for (std::int32_t turn = 0; turn < parts && peers_.exists(part); ++turn) {
      part = peers_.next(part);
    }
    return part;
  }

  /// Sends a sum into the slot of the token's first choice on this rank.
  __device__ void send(const RowAdder& adder, const PeerPart& part, std::int32_t row) {
    const std::uint32_t here = __ballot_sync(0xFFFFFFFFU, row >= 0);
    if (here == 0U) {
      return;
    }
    delay_();
    const std::int64_t row_bytes = exchange_.row_bytes;
    const std::int64_t slot = peers_.first_slot(part) + __ffs(static_cast<std::int32_t>(here)) - 1;
    adder.add(row >= 0 ? exchange_.rows.results + row * row_bytes : nullptr, peers_.bytes(part),
              launch_.slots[part.owner] + slot * row_bytes);
  }

  /// Notes the progress of all lanes' stores for all owners. `tokens` is that of the owner for which this lane stands.
  __device__ void note(std::uint32_t tokens) {
    shared_.progress().note_of_warp(lane_index() < exchange_.call.world, sender_, lane_index(), tokens, delay_);
  }

  const CombineLaunch& launch_;
  const MoeExchange& exchange_;
  const CombineShared& shared_;
  CombinePeers peers_;
  const std::int32_t sender_;
  Delay delay_;
};

}  // namespace xstage::kernels
