#pragma once
// Parameters of launches of dispatch and combine, plain data that is copied into the launch; the rows that all kernels
// of the layer work on; and the division of a CTA's shared memory.

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/moe/tiles.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

inline constexpr std::int32_t most_moe_choices = 16;  // of a token
inline constexpr std::int32_t most_moe_senders = 8;   // warps of a CTA that store to peers
inline constexpr std::int32_t most_moe_stages = 16;   // of one warp's ring
inline constexpr std::int32_t most_moe_stores_under_way = 4;

/// Place of one choice of a token in the table of a rank: its row there, or one of the two values below.
struct MoeRoute {
  static constexpr std::int32_t none = -1;  // the choice has no expert of this rank
  /// Only in the table of the token's own rank: the expert belongs to that peer.
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::int32_t elsewhere(std::int32_t peer) {
    return none - 1 - peer;
  }
  std::int32_t row;
  float weight;
};
static_assert(sizeof(MoeRoute) == 8);

/// Lies in pinned host memory, one for each rank. It describes the first invalid expert id or router weight of all
/// ranks, the same on every rank.
struct RoutingReport {
  std::uint32_t raised;  // 0: none; 1: complete
  std::int32_t rank;
  std::int32_t token;
  std::int32_t choice;
  std::int32_t expert;
  float weight;
};

/// Layout of the signal pad behind CallPad::arrivals, in words. A flag says how much has arrived from one warp of a
/// peer's CTA: it has the call's number in the upper bits and tokens in the lower ones, so that it grows from call to
/// call. Dispatch and combine count their calls separately. Each of their flags is therefore written in each of the
/// calls that it counts, and stays close enough to the awaited value to be compared by signed distance, however often
/// only the other kernel is launched.
struct MoeExchangePad {
  static constexpr std::uint32_t line = CallPad::line;
  static constexpr std::uint32_t dispatch_calls = CallPad::arrivals;  // [CTA]: calls that have ended
  // [CTA][2]: calls that have ended, and 1 if the dispatch before the next call has done nothing. Both are read
  // together.
  static constexpr std::uint32_t combine_calls = dispatch_calls + CallPad::most_blocks;
  static constexpr std::uint32_t blocks_arrived =
      combine_calls + 2 * CallPad::most_blocks;  // CTAs of this rank that have arrived at their barrier
  static constexpr std::uint32_t blocks_passed =
      blocks_arrived + line;  // the last call in which all CTAs arrived, or none had to
  static constexpr std::uint32_t bad_call = blocks_passed + line;  // the dispatch in which a rank had an invalid choice
  static constexpr std::uint32_t dispatch_flags = bad_call + line;  // [source rank][CTA][most_moe_senders]
  static constexpr std::uint32_t flag_shift = 21;  // bits for tokens in a flag: CTAs * 2^21 exceed tokens
  static constexpr std::uint32_t all_sent = (1U << flag_shift) - 1U;  // in place of tokens: nothing more follows

  static_assert(combine_calls % 2 == 0);

  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t calls_of_dispatch(std::int32_t block) {
    return dispatch_calls + static_cast<std::uint32_t>(block);
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t calls_of_combine(std::int32_t block) {
    return combine_calls + 2U * static_cast<std::uint32_t>(block);
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t flags(std::int32_t world, std::int32_t blocks) {
    return static_cast<std::uint32_t>(world * blocks * most_moe_senders);
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t combine_flags(std::int32_t world,
                                                                                std::int32_t blocks) {
    return dispatch_flags + flags(world, blocks);
  }
  /// Number of words, for CollectiveHandle.
  [[nodiscard]] static constexpr std::size_t arrival_words(std::int32_t world, std::int32_t blocks) {
    return dispatch_flags - CallPad::arrivals + 2 * std::size_t{flags(world, blocks)};
  }
  /// Number of the flag of one warp of a rank's CTA, counted from the first flag.
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t flag(std::int32_t rank, std::int32_t block,
                                                                       std::int32_t blocks, std::int32_t warp) {
    return static_cast<std::uint32_t>((rank * blocks + block) * most_moe_senders + warp);
  }
};

inline constexpr std::int32_t moe_block_rows = 128;

/// The origin of a row.
struct MoeOrigin {
  std::int32_t rank;
  std::int32_t choice;  // token * top_k + k on that rank
};

/// The rows of a rank's experts, which pass through the kernels: dispatch -> Linear-1 -> Linear-2 -> combine. Device
/// addresses.
///
/// There is one row for each choice of an expert of this rank. The rows of local expert e begin at row first_block[e] *
/// moe_block_rows and are ordered by source rank, token and choice. Rows behind an expert's last one, up to the end of
/// its block, are padding: they may hold anything, and may be overwritten.
struct MoeRows {
  char* tokens;               // [most_rows, hidden] bf16: what dispatch brought
  char* activations;          // [most_rows, intermediate] bf16: Linear-1 with SwiGLU, times the router weight
  char* results;              // [most_rows, hidden] bf16: Linear-2, before it travels back
  std::int32_t* counts;       // [experts_per_rank]: rows of each expert
  std::int32_t* first_block;  // [experts_per_rank + 1]
  float* weights;             // [most_rows]: router weight of the row's choice
  MoeOrigin* origins;         // [most_rows]
};

/// Rows for every routing: the largest number if all ranks have the most tokens and all of their choices fall here.
inline std::int32_t most_moe_rows(int world, std::int64_t most_tokens, int top_k, int experts_per_rank) {
  const auto choices = static_cast<std::int32_t>(world * most_tokens * top_k);
  return moe_block_rows * schedule::most_moe_blocks(choices, experts_per_rank, moe_block_rows);
}

/// Parameters of both kernels.
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
  std::int32_t under_way;    // stages whose stores are in flight while others are loaded
  std::int32_t stage_bytes;  // longest piece of a row, a multiple of 16
};

/// Words of a CTA's counts in block_counts, which are read four at a time.
[[nodiscard]] XSTAGE_HOST_DEVICE constexpr std::int32_t padded_counts(std::int32_t experts) {
  return (experts + 3) / 4 * 4;
}
/// Words of one call's `totals`: the choices of each expert, then the mark of the rank's first invalid choice.
[[nodiscard]] XSTAGE_HOST_DEVICE constexpr std::int32_t total_words(std::int32_t experts) {
  return padded_counts(experts + 1);
}

/// What a rank sends to all others in a call: 8-byte words, each with the number of the call in its upper half.
struct MoeCountLine {
  // The choices of each expert come first, then these words:
  static constexpr std::int32_t tokens = 0;
  static constexpr std::int32_t bad_choice = 1;  // mark of the first invalid choice, 0: none
  static constexpr std::int32_t bad_expert = 2;  // its expert id
  static constexpr std::int32_t bad_weight = 3;  // bits of its router weight
  static constexpr std::int32_t count = 4;

  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::int32_t words(std::int32_t experts) { return experts + count; }
  /// Mark of a choice: the first choice has the largest mark, and none has 0.
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::uint32_t mark(std::int32_t choice) {
    return ~static_cast<std::uint32_t>(choice);
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static constexpr std::int32_t marked(std::uint32_t mark) {
    return static_cast<std::int32_t>(~mark);
  }
};

/// Delays for tests, see role.cuh.
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
  std::uint64_t* counts[max_world];  // symmetric, of every rank: [source rank][MoeCountLine]
  std::uint32_t* block_counts;       // [CTAs][padded_counts(experts)]: counts of this rank's tokens
  std::uint32_t* totals;  // [2][total_words(experts)]: counts of all CTAs, in odd and even calls; zeros at first
  RoutingReport* report;
  std::int32_t senders;         // warps of a CTA, 1 to most_moe_senders
  std::int32_t copiers;         // warps of a CTA that copy what peers sent, 0 if and only if there are none
  MoeRing ring;                 // of a sender
  std::int32_t told_together;   // tokens of a CTA that share a fence
  std::int32_t counted_by_all;  // up to this many choices of a rank, each CTA counts all of them
  MoeDelays delays;
};

struct CombineLaunch {
  MoeExchange exchange;
  char* slots[max_world];  // symmetric, of every rank: [most_tokens * top_k, hidden]: rows or sums that came back
  char* output;            // [tokens, hidden]
  std::int32_t senders;    // warps of a CTA that send these, 0 if and only if there are no peers
  std::int32_t groups;     // of the warps that add: each group has a token at a time
  MoeRing ring;            // of a sender
  // Used in place of `ring` where no peer has more than one token for the CTA: stages of whole rows.
  MoeRing ring_for_few;
  std::int32_t told_together;  // tokens of a CTA that share a fence
  std::int32_t partial_sums;   // 1: a token's rows on a peer are added up there and cross as one
  std::int32_t sender_groups;  // of the warps that send partial sums: each group has a token at a time
  std::int32_t enters;         // 1: waits until peers have entered; 0: a dispatch has waited for that
  std::int32_t overlaps;       // 0: adding begins only when everything has arrived
  MoeDelays delays;
};

// Parameters beyond this size make each launch slower.
static_assert(sizeof(DispatchLaunch) <= 4096 && sizeof(CombineLaunch) <= 4096);

/// The tokens of one share of a rank's tokens: shares are nearly equal, and in order.
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

// ---- shared memory of a CTA

/// Words of MoeProgress: [most_moe_senders][max_world].
inline constexpr std::int32_t moe_progress_words = most_moe_senders * max_world;

inline constexpr std::int32_t dispatch_threads = 512;
inline constexpr std::int32_t dispatch_warps = dispatch_threads / 32;
static_assert(dispatch_warps >= max_world && dispatch_warps >= most_moe_senders);

/// Words by which the warps of a CTA communicate.
struct DispatchWords {
  std::uint32_t epoch;
  std::uint32_t passed_over;  // 1: an earlier call had an invalid choice, so this one does nothing
  std::uint32_t failed;  // 1, before the first row: passed_over, or a peer has not entered, or a CTA has not counted
  std::uint32_t bad_choice;  // mark of the first invalid choice that this CTA has counted, see MoeCountLine
  std::int32_t of_ranks[MoeCountLine::count][max_world];  // tokens of each rank; in CTA 0 also invalid choices
  std::int32_t sender_end[most_moe_senders];              // end of each sender's tokens
  std::uint32_t progress[moe_progress_words];
};

/// Dispatch: barriers of all rings | words | before, all [experts] | next row [senders][experts] | stages
struct DispatchLayout {
  std::int32_t words, before, all, next, stages, bytes;

  [[nodiscard]] XSTAGE_HOST_DEVICE static DispatchLayout of(const DispatchLaunch& launch) {
    const auto up_to = [](std::int32_t offset, std::int32_t alignment) {
      return (offset + alignment - 1) / alignment * alignment;
    };
    const std::int32_t experts = launch.exchange.experts() * static_cast<std::int32_t>(sizeof(std::int32_t));
    const std::int32_t stages = launch.senders * launch.ring.stages;
    DispatchLayout layout{};
    layout.words = stages * static_cast<std::int32_t>(sizeof(std::uint64_t));
    layout.before = layout.words + static_cast<std::int32_t>(sizeof(DispatchWords));
    layout.all = layout.before + experts;
    layout.next = layout.all + experts;
    layout.stages = up_to(layout.next + launch.senders * experts, 128);
    layout.bytes = layout.stages + stages * launch.ring.stage_bytes;
    return layout;
  }
};

inline constexpr std::int32_t combine_threads = 512;
inline constexpr std::int32_t combine_warps = combine_threads / 32;
static_assert(combine_warps > most_moe_senders + 1);

/// A piece that a sender has loaded, and where it goes.
struct SentPiece {
  char* to;
  std::int32_t bytes;
};

/// Number of warps that add up: all but the senders and the one that signals peers.
[[nodiscard]] XSTAGE_HOST_DEVICE constexpr std::int32_t combine_adders(std::int32_t senders) {
  return combine_warps - senders - (senders != 0 ? 1 : 0);
}

/// Bytes [begin, end) of a row.
struct RowBytes {
  std::int32_t begin;
  std::int32_t end;

  /// Bytes of one of `parts` parts of a row.
  [[nodiscard]] XSTAGE_HOST_DEVICE static RowBytes of_part(std::int32_t part, std::int32_t part_bytes,
                                                           std::int32_t row_bytes) {
    const std::int32_t part_end = (part + 1) * part_bytes;
    return {part * part_bytes, part_end < row_bytes ? part_end : row_bytes};
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE std::int32_t count() const { return end - begin; }
};

/// Units in which CTAs take a rank's tokens: whole tokens, or parts of their rows if there are fewer tokens than CTAs,
/// so that all CTAs send and add up. They follow from the number of tokens and are the same on every rank.
struct CombineParts {
  static constexpr std::int32_t least_bytes = 2048;
  std::int32_t count;  // of a row
  std::int32_t bytes;  // bytes of each part but the last one; a multiple of 16
  MoeTokenRange own;   // the parts of one CTA: part p is part p % count of token p / count

  [[nodiscard]] XSTAGE_HOST_DEVICE static CombineParts of(std::int32_t tokens, std::int32_t row_bytes,
                                                          std::int32_t block, std::int32_t blocks) {
    CombineParts parts{1, row_bytes, {}};
    if (tokens > 0 && blocks >= 2 * tokens && row_bytes >= 2 * least_bytes) {
      const std::int32_t wanted = blocks / tokens < row_bytes / least_bytes ? blocks / tokens : row_bytes / least_bytes;
      parts.bytes = (row_bytes / wanted + 15) / 16 * 16;
      parts.count = (row_bytes + parts.bytes - 1) / parts.bytes;
    }
    parts.own = MoeTokenRange::of(tokens * parts.count, block, blocks);
    return parts;
  }
};

/// Combine: barriers of all rings | progress | notes of their pieces | stages
struct CombineLayout {
  /// Stages of a sender's ring, for either of its rings.
  [[nodiscard]] XSTAGE_HOST_DEVICE static std::int32_t stages_of(const CombineLaunch& launch) {
    return launch.ring.stages > launch.ring_for_few.stages ? launch.ring.stages : launch.ring_for_few.stages;
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static std::int32_t ring_bytes(const CombineLaunch& launch) {
    const std::int32_t many = launch.ring.stages * launch.ring.stage_bytes;
    const std::int32_t few = launch.ring_for_few.stages * launch.ring_for_few.stage_bytes;
    return many > few ? many : few;
  }

  std::int32_t progress, pieces, stages, bytes;

  [[nodiscard]] XSTAGE_HOST_DEVICE static CombineLayout of(const CombineLaunch& launch) {
    const std::int32_t stages = launch.senders * stages_of(launch);
    CombineLayout layout{};
    layout.progress = (stages * static_cast<std::int32_t>(sizeof(std::uint64_t)) + 15) / 16 * 16;
    layout.pieces = layout.progress + moe_progress_words * static_cast<std::int32_t>(sizeof(std::uint32_t));
    layout.stages = (layout.pieces + stages * static_cast<std::int32_t>(sizeof(SentPiece)) + 127) / 128 * 128;
    layout.bytes = layout.stages + launch.senders * ring_bytes(launch);
    return layout;
  }
};

}  // namespace xstage::kernels
