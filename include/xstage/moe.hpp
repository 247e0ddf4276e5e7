#pragma once
// Expert-parallel mixture-of-experts layer, on GPUs of compute capability 9.0: dispatch, Linear-1 (gate and up),
// SwiGLU, Linear-2, combine. Source: the MegaMoE workload of "X-Stage" (arXiv 2607.23264), here as one kernel after the
// other. Operands and results are bf16, accumulation is in fp32. R is the number of ranks. Rank r holds experts [r *
// experts_per_rank, (r + 1) * experts_per_rank) and tokens of its own.
//
//   operands of a rank   tokens          [tokens, hidden]                              bf16
//                        experts         [tokens, top_k]                               int32, of all ranks; -1: none
//                        router_weights  [tokens, top_k]                               fp32
//                        linear1         [experts_per_rank, 2 * intermediate, hidden]  bf16, packed by pack_linear1
//                        linear2         [experts_per_rank, hidden, intermediate]      bf16
//   result of a rank     output          [tokens, hidden]                              bf16
//
//   output = sum over choices (router_weight * silu(gate) * up) * linear2^T     gate, up: token * linear1^T
//
// These intermediate numbers are rounded to bf16, and no others: router_weight * silu(gate) * up before Linear-2; the
// row of Linear-2 for each choice; with Combine::partial_sums the sum that one rank sends for a token of another; the
// final sum. Sums are in fp32, in an order that follows from the choices alone, so that every run gives the same
// result.
//
// A choice of expert -1 is skipped, and its router weight is not read; a token without any choice has a result of
// zeros. An expert may occur twice among a token's choices and then counts twice. Router weights are finite, of any
// sign.
//
// Requirements: hidden and intermediate are multiples of 64, at most 16384; operands and results are contiguous and
// aligned to 16 bytes; each rank has at most `most_tokens` tokens. Ranks may have different numbers of tokens, and 0. A
// rule that the host can check throws InputError with the value and the rule before anything is enqueued.
//
// Expert ids and router weights lie on the device. A launch that meets an invalid one completes on all ranks with
// meaningless results, and the next `check` or `launch` on every rank names the token and rank of the first invalid
// choice of the lowest rank. (`check_routing` checks a copy in host memory.) Launches that were enqueued behind it end
// at once on all ranks, without work and without waits, until `reset`.
//
// Synchronisation: `launch` enqueues kernels and returns. The launches of all ranks synchronise on the device, so every
// rank must launch, also one without tokens, and every rank must launch its handles in the same order, all handles of
// one heap on one stream of that rank. The result on a rank is complete when its kernels have ended. Replays of a CUDA
// graph need no host work between them. Every wait on the device is bounded: when it times out, the waiting rank
// signals all others, and the next `check` or `launch` on each of them reports who waited for whom, until `reset`.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "xstage/symmetric_heap.hpp"

struct CUstream_st;

namespace xstage {

namespace moe {

/// Stands for "no expert".
inline constexpr std::int32_t no_expert = -1;

/// What is computed. All ranks pass the same problem; if they do not, the constructor of MoeLayer throws InputError.
struct Problem {
  std::int64_t hidden = 0;        // H
  std::int64_t intermediate = 0;  // I, of each expert
  int experts_per_rank = 0;
  int top_k = 0;  // choices of a token
  // Upper bound of the tokens of one rank in any launch; it sets the size of the heap buffers.
  std::int64_t most_tokens = 0;
  float clamp = 0;  // 0: none. Otherwise SwiGLU takes min(gate, clamp) and up within [-clamp, clamp]; both in fp32
};

enum class Schedule {
  unfused,  // one kernel after the other
};

/// The rows that ranks send each other after Linear-2.
enum class Combine {
  /// One row for each token and each rank that has some of its experts: their sum, rounded to bf16. The token's own
  /// rank adds up these rows, each in the place of the first choice in it, and the rows of its own experts.
  partial_sums,
  /// One row for each choice. The token's own rank adds them up in the order of the choices, so that a token has the
  /// same result on any number of ranks, to the bit.
  rows,
};

/// Parameters of a launch. The constructor of MoeLayer fills in every field that is 0 by a rule; `make_plan` fills in
/// all of them for partial sums. No field but `combine` changes a result.
struct Plan {
  Schedule schedule = Schedule::unfused;
  int issuers = 0;  // CTAs of each kernel; by rule one for each multiprocessor
  Combine combine = Combine::partial_sums;
  // A CTA of dispatch has 16 warps: senders, copiers, and one that signals peers what has been sent.
  int dispatch_senders = 0;  // warps that send tokens
  int dispatch_copiers = 0;  // warps that copy a received token to its other rows; 0 if there is one rank
  // A CTA of combine has 16 warps: senders, one that signals peers, and adders, which are all others.
  int combine_senders = 0;        // warps that send to peers; 0 if there is one rank
  int combine_sender_groups = 0;  // groups of senders, each of which sends one token at a time; only for partial sums
  int combine_adder_groups = 0;   // groups of adders, each of which adds up one token at a time
  // Columns of a tile of 128 rows: 128 or 256. 0, also in a complete plan: the rule picks them in each launch from its
  // number of tokens.
  int linear1_tile_columns = 0;
  int linear2_tile_columns = 0;
};

/// Device addresses of one launch; the head of this file has their shapes.
struct Operands {
  std::int64_t tokens = 0;  // of this rank; if 0, tokens_in, experts, router_weights and output may be null
  const void* tokens_in = nullptr;
  const std::int32_t* experts = nullptr;
  const float* router_weights = nullptr;
  const void* linear1 = nullptr;
  const void* linear2 = nullptr;
  void* output = nullptr;
};

/// Throws InputError if the problem breaks a rule for `world` ranks.
void check_problem(const Problem& problem, int world);

/// Throws InputError if `tokens` is negative or above `most_tokens`.
void check_tokens(const Problem& problem, std::int64_t tokens);

/// Throws InputError for the first expert id or router weight that breaks a rule, naming token and choice. Arrays
/// [tokens, top_k] of one rank, in host memory.
void check_routing(const Problem& problem, int world, std::span<const std::int32_t> experts,
                   std::span<const float> router_weights);

/// The default plan: a simple rule fills in every field. `multiprocessors` is their number on one GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// Bytes that one rank's MoeLayer allocates in the symmetric heap. They suffice for every routing of at most
/// `most_tokens` tokens on each rank, also for one that sends all of them to one rank.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, int world);

/// Floating-point operations of both linear layers for `choices` rows.
[[nodiscard]] double flops(const Problem& problem, std::int64_t choices);

/// Packs Linear-1 as the kernel reads it: in every expert 8 rows of gate, then the same 8 rows of up, and so on. `gate`
/// and `up` are [experts, intermediate, hidden], `packed` is [experts, 2 * intermediate, hidden], all bf16 in device
/// memory and aligned to 16 bytes. Many models store gate and up in one tensor [experts, 2 * intermediate, hidden], in
/// which up is the second half of each expert: `expert_stride` is the distance of two experts in elements (0:
/// intermediate * hidden). Enqueues on `stream`, a stream of the GPU that holds the tensors, whichever GPU is current.
void pack_linear1(const Problem& problem, const void* gate, const void* up, std::int64_t expert_stride, void* packed,
                  CUstream_st* stream);

}  // namespace moe

/// One rank's handle. Its constructor is collective: every rank constructs the same handles in the same order. A handle
/// is not thread-safe. Its launches run one at a time, in stream order.
class MoeLayer {
 public:
  MoeLayer(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan,
           std::chrono::microseconds time_out = std::chrono::seconds(10));
  MoeLayer(MoeLayer&&) noexcept;
  MoeLayer& operator=(MoeLayer&&) noexcept;
  ~MoeLayer();

  /// Enqueues the layer. Throws InputError for operands that break a rule, and what `check` throws for an earlier call.
  void launch(const moe::Operands& operands, CUstream_st* stream);

  /// Launches all virtual ranks of one GPU as cooperative kernels. Handle i and operands i belong to rank i.
  static void launch_together(std::span<MoeLayer* const> ranks, std::span<const moe::Operands> operands,
                              CUstream_st* stream);

  /// Throws DeviceError if a wait of this rank has timed out. The message names the waiting rank and CTA, the place,
  /// the peer, and the expected and the observed value. Throws InputError, the same on all ranks, if a launch met an
  /// invalid expert id or router weight.
  void check() const;

  /// Makes the handles usable after either error: waits until the devices are idle, then restores epochs and signals on
  /// all ranks. Collective.
  static void reset(std::span<MoeLayer* const> ranks);

  [[nodiscard]] const moe::Plan& plan() const;
  [[nodiscard]] const moe::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // number of CTAs of one rank's launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
