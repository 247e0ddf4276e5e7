#pragma once
// What launches of dispatch and combine know. Plain data, copied into the launch.

#include <cstddef>
#include <cstdint>

#include "kernels/collective/call_parameters.hpp"
#include "kernels/common/host_device.hpp"
#include "kernels/moe/moe_rows.hpp"

#include "xstage/peer_view.hpp"

namespace xstage::kernels {

inline constexpr std::int32_t most_moe_choices = 16;  // of a token
inline constexpr std::int32_t most_moe_senders = 8;   // warps of a CTA that store to peers
inline constexpr std::int32_t most_moe_stages = 16;   // of one warp's ring
inline constexpr std::int32_t most_moe_stores_under_way = 4;

/// Where one choice of a token has its row, in the table of a rank: row there, or one of the two below.
struct MoeRoute {
  static constexpr std::int32_t none = -1;  // no expert of this rank
  /// Only in the table of the token's own rank: an expert of that peer.
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::int32_t elsewhere(std::int32_t peer) {
    return none - 1 - peer;
  }
  std::int32_t row;
  float weight;
};
static_assert(sizeof(MoeRoute) == 8);

/// In pinned host memory, one a rank: the first expert id or router weight that breaks a rule.
struct RoutingReport {
  std::uint32_t raised;  // 0: none; 1: being filled; 2: complete
  std::int32_t rank;
  std::int32_t token;
  std::int32_t choice;
  std::int32_t expert;
  float weight;
};

/// Words of the signal pad behind CallPad::arrivals. A flag says how much has arrived from one warp of a peer's CTA:
/// the call's number in the upper bits, tokens in the lower ones, so that it grows from call to call. Dispatch and
/// combine count their calls apart: each of their flags is written in each of the calls that it counts, and stays close
/// enough to what is waited for to be compared by signed distance, however often only the other one is called.
struct MoeExchangePad {
  static constexpr std::uint32_t line = CallPad::line;
  static constexpr std::uint32_t dispatch_calls = CallPad::arrivals;  // [CTA]: calls that have ended
  static constexpr std::uint32_t combine_calls = dispatch_calls + CallPad::most_blocks;
  static constexpr std::uint32_t blocks_arrived =
      combine_calls + CallPad::most_blocks;  // CTAs of this rank that wait for the others
  static constexpr std::uint32_t blocks_passed =
      blocks_arrived + line;  // the last call in which all of them came, or none had to
  static constexpr std::uint32_t dispatch_flags = blocks_passed + line;  // [source rank][CTA][most_moe_senders]
  static constexpr std::uint32_t flag_shift = 21;  // bits of tokens in a flag: CTAs * 2^21 exceed tokens
  static constexpr std::uint32_t all_sent = (1U << flag_shift) - 1U;  // instead of tokens: nothing more will come

  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t flags(std::int32_t world, std::int32_t blocks) {
    return static_cast<std::uint32_t>(world * blocks * most_moe_senders);
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t combine_flags(std::int32_t world,
                                                                                std::int32_t blocks) {
    return dispatch_flags + flags(world, blocks);
  }
  /// For CollectiveHandle.
  [[nodiscard]] static constexpr std::size_t arrival_words(std::int32_t world, std::int32_t blocks) {
    return dispatch_flags - CallPad::arrivals + 2 * std::size_t{flags(world, blocks)};
  }
  /// The flag of one warp of a rank's CTA, counted from the first flag.
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t flag(std::int32_t rank, std::int32_t block,
                                                                       std::int32_t blocks, std::int32_t warp) {
    return static_cast<std::uint32_t>((rank * blocks + block) * most_moe_senders + warp);
  }
};

/// What both kernels know.
struct MoeExchange {
  CallParameters call;
  std::int32_t tokens;  // of this rank in this launch
  std::int32_t most_tokens;
  std::int32_t top_k;
  std::int32_t experts_per_rank;
  std::int32_t row_bytes;       // hidden * 2
  MoeRoute* routes[max_world];  // symmetric, of every rank: [source rank][most_tokens][top_k]
  std::int32_t* tokens_of;      // [world]: tokens of each rank, left by dispatch for combine
  MoeRows rows;

  [[nodiscard]] XSTAGE_HOST_DEVICE std::int32_t experts() const { return call.world * experts_per_rank; }
};

/// One warp's ring of stages in shared memory.
struct MoeRing {
  std::int32_t stages;       // more than under_way, up to most_moe_stages
  std::int32_t under_way;    // stages that are being stored while others are loaded
  std::int32_t stage_bytes;  // longest piece of a row, a multiple of 16
};

/// Words of a CTA's counts in block_counts: read four at a time.
[[nodiscard]] XSTAGE_HOST_DEVICE constexpr std::int32_t padded_counts(std::int32_t experts) {
  return (experts + 3) / 4 * 4;
}

/// For tests: see moe_exchange_delay.cuh.
struct MoeDelays {
  std::uint32_t longest_ns;  // 0: none
  std::uint32_t seed;
};

struct DispatchLaunch {
  MoeExchange exchange;
  const char* tokens_in;
  const std::int32_t* experts;
  const float* router_weights;
  char* peer_tokens[max_world];      // MoeRows::tokens of every rank
  std::uint64_t* counts[max_world];  // symmetric, of every rank: [source rank][experts + 1], see dispatch_places.cuh
  std::uint32_t* block_counts;       // [CTAs][padded_counts(experts)]: of this rank's tokens
  std::uint32_t* totals;             // [2][padded_counts(experts)]: of all CTAs, in odd and even calls; zeros at first
  RoutingReport* report;
  std::int32_t senders;         // warps of a CTA, 1 to most_moe_senders
  std::int32_t copiers;         // warps of a CTA that copy what peers sent, 0 if and only if there are none
  MoeRing ring;                 // of a sender
  std::int32_t told_together;   // tokens of a CTA that share a fence
  std::int32_t counted_by_all;  // up to so many choices of a rank each CTA counts all of them
  MoeDelays delays;
};

struct CombineLaunch {
  MoeExchange exchange;
  char* slots[max_world];      // symmetric, of every rank: [most_tokens * top_k, hidden]: rows or sums that came back
  char* output;                // [tokens, hidden]
  std::int32_t senders;        // warps of a CTA that send these, 0 if and only if there are no peers
  std::int32_t groups;         // of the warps that add: each group has a token at a time
  MoeRing ring;                // of a sender
  MoeRing ring_for_few;        // instead of it where no peer has more than a token for the CTA: whole rows
  std::int32_t told_together;  // tokens of a CTA that share a fence
  std::int32_t partial_sums;   // 1: a token's rows on a peer are added up there and cross as one
  std::int32_t sender_groups;  // of the warps that send partial sums: each group has a token at a time
  std::int32_t enters;         // 1: waits until peers have entered, 0: it follows a dispatch, which has
  std::int32_t overlaps;       // 0: adds only when everything has arrived
  MoeDelays delays;
};

// Beyond it each launch becomes slower.
static_assert(sizeof(DispatchLaunch) <= 4096 && sizeof(CombineLaunch) <= 4096);

/// Tokens that a share of a rank's tokens holds: nearly equal shares, in order.
struct MoeTokenRange {
  std::int32_t begin;
  std::int32_t end;

  [[nodiscard]] XSTAGE_HOST_DEVICE static MoeTokenRange of(std::int32_t tokens, std::int32_t share,
                                                           std::int32_t shares) {
    const auto bound = [=](std::int32_t number) {
      return static_cast<std::int32_t>(std::int64_t{tokens} * number / shares);
    };
    return {bound(share), bound(share + 1)};
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE std::int32_t count() const { return end - begin; }
};

}  // namespace xstage::kernels
