#pragma once
// Expert-parallel mixture-of-experts layer, on GPUs of compute capability 9.0: dispatch, Linear-1 (gate and up),
// SwiGLU, Linear-2, combine. bf16 operands and results, fp32 accumulation. Rank r of R holds experts
// [r * experts_per_rank, (r + 1) * experts_per_rank) and tokens of its own.
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
// What is rounded to bf16, and nothing else: router_weight * silu(gate) * up, before Linear-2; each choice's row of
// Linear-2; with Combine::partial_sums what a rank has added up for a token of another; the sum. Sums are in fp32 in an
// order that follows from the choices alone, so that a token has the same result in every run.
//
// A choice of expert -1 takes no part, and its router weight is not read; a token without any choice has a result of
// zeros. An expert may stand twice among a token's choices: it counts twice. Router weights are finite, of any sign.
//
// Requirements: hidden and intermediate multiples of 64 up to 16384; operands and results aligned to 16 bytes,
// contiguous; at most `most_tokens` tokens on each rank, which may differ, 0 included. What the host can see throws
// InputError with the value and the rule, before anything is enqueued. Expert ids and router weights lie on the device:
// a launch that meets a bad one completes on all ranks, with results that mean nothing, and the next `check` or
// `launch` on every rank says which token of which rank it was, the first of the first rank (`check_routing` finds all
// there is to find in a copy on the host). What has been launched behind it does nothing, on whichever ranks, and waits
// for nobody, until `reset`.
//
// Synchronisation: as gemm.hpp describes it. `launch` enqueues kernels and returns; the ranks' launches find each other
// on the device; they must be enqueued in the same order on every rank, all handles of a heap on one stream a rank, and
// every rank must launch, without tokens too. The result on a rank is complete when its kernels have finished. No host
// work between replays of a CUDA graph. A rank that waits longer than the time-out gives up, tells the others, and the
// next `check` or `launch` on each of them says who waited for whom, until `reset`; nothing hangs.

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

/// What is computed. The same on every rank; ranks that disagree are told apart when the MoeLayer is made.
struct Problem {
  std::int64_t hidden = 0;        // H
  std::int64_t intermediate = 0;  // I, of each expert
  int experts_per_rank = 0;
  int top_k = 0;                 // choices of a token
  std::int64_t most_tokens = 0;  // on one rank, of any launch: what the heap is made for
  float clamp = 0;  // 0: none. Otherwise SwiGLU takes min(gate, clamp) and up within [-clamp, clamp]; both in fp32
};

enum class Schedule {
  unfused,  // one kernel after the other
};

/// What crosses between ranks behind Linear-2.
enum class Combine {
  /// The sum of a token's choices on one rank, rounded to bf16: one row for each rank that the token needs. The rank of
  /// the token adds these, each in the place of its first choice, and the rows of its own experts.
  partial_sums,
  /// One row for each choice. The sum is in the order of the choices, whoever computed them: a token has the same
  /// result on any number of ranks, to the bit.
  rows,
};

/// Numbers of a launch; a MoeLayer fills in what is 0, by rule, and `make_plan` all of them for partial sums. Results
/// do not depend on them, but for `combine`.
struct Plan {
  Schedule schedule = Schedule::unfused;
  int issuers = 0;  // CTAs of each kernel; by rule one for each multiprocessor
  Combine combine = Combine::partial_sums;
  // Warps of a CTA of dispatch, 16 in all, one of which tells peers what has been sent.
  int dispatch_senders = 0;  // that send tokens
  int dispatch_copiers = 0;  // that copy what peers have sent to its further rows; a rank alone has none
  // Warps of a CTA of combine, 16 in all, one of which tells peers; all others add up.
  int combine_senders = 0;        // that send to peers; a rank alone has none
  int combine_sender_groups = 0;  // of them, each with a token at a time; only for partial sums
  int combine_adder_groups = 0;   // of those that add, each with a token at a time
  // Columns of a tile of 128 rows, 128 or 256. The rule picks them in each launch, from the tokens it has: 0 also in a
  // complete plan.
  int linear1_tile_columns = 0;
  int linear2_tile_columns = 0;
};

/// Device addresses of one launch.
struct Operands {
  std::int64_t tokens = 0;  // of this rank; without any, the first three and the output may be null
  const void* tokens_in = nullptr;
  const std::int32_t* experts = nullptr;
  const float* router_weights = nullptr;
  const void* linear1 = nullptr;
  const void* linear2 = nullptr;
  void* output = nullptr;
};

/// Throws InputError if the problem breaks a rule for that many ranks.
void check_problem(const Problem& problem, int world);

/// Throws InputError if a rank has more tokens than the heap is made for, or fewer than none.
void check_tokens(const Problem& problem, std::int64_t tokens);

/// Throws InputError for the first expert id or router weight that breaks a rule, naming token and choice. Arrays
/// [tokens, top_k] of one rank, in host memory.
void check_routing(const Problem& problem, int world, std::span<const std::int32_t> experts,
                   std::span<const float> router_weights);

/// The plan that the first simple rule picks; `multiprocessors` are those of the GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// Bytes of symmetric heap that one rank's MoeLayer takes: enough for every routing of at most `most_tokens` on each
/// rank, the one that sends all of them to one rank included.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, int world);

/// Floating-point operations of both products for so many choices (rows that experts compute).
[[nodiscard]] double flops(const Problem& problem, std::int64_t choices);

/// Packs Linear-1 as the kernel reads it: in every expert 8 rows of gate, then the same 8 rows of up, and so on.
/// `gate`, `up`: [experts, intermediate, hidden]; `packed`: [experts, 2 * intermediate, hidden]; all in device memory.
/// Where both lie in one tensor [experts, 2 * intermediate, hidden], as many models store them, up is the second half
/// of each expert: `expert_stride` is the distance of two experts in elements (0: intermediate * hidden). Enqueued on
/// the GPU on which they lie, whichever is current; `stream` is one of its streams.
void pack_linear1(const Problem& problem, const void* gate, const void* up, std::int64_t expert_stride, void* packed,
                  CUstream_st* stream);

}  // namespace moe

/// One rank's handle. Making one is collective: every rank makes the same ones in the same order. Not thread-safe; one
/// launch of a handle at a time is under way on its stream.
class MoeLayer {
 public:
  MoeLayer(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan,
           std::chrono::microseconds time_out = std::chrono::seconds(10));
  MoeLayer(MoeLayer&&) noexcept;
  MoeLayer& operator=(MoeLayer&&) noexcept;
  ~MoeLayer();

  /// Enqueues the layer. Throws InputError for operands that break a rule, DeviceError if an earlier call gave up.
  void launch(const moe::Operands& operands, CUstream_st* stream);

  /// All virtual ranks of one GPU in cooperative launches; handle i and operands i belong to rank i.
  static void launch_together(std::span<MoeLayer* const> ranks, std::span<const moe::Operands> operands,
                              CUstream_st* stream);

  /// Throws DeviceError if a wait of this rank has expired: who waited, where, for whom, for what, what was there.
  /// Throws InputError, on all ranks the same, if a launch met an expert id or a router weight that breaks a rule.
  void check() const;

  /// After either: waits for the devices, then restores epochs and signals on all ranks. Collective.
  static void reset(std::span<MoeLayer* const> ranks);

  [[nodiscard]] const moe::Plan& plan() const;
  [[nodiscard]] const moe::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // CTAs of a launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
