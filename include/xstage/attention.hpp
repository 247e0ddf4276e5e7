#pragma once
// Attention whose kernel stores each result tile directly to the rank that owns its rows (Ulysses sequence
// parallelism), on GPUs of compute capability 9.0. Source: the FlashAttention-A2A workload of "X-Stage" (arXiv
// 2607.23264); a tile is computed in the order of FlashAttention (arXiv 2205.14135).
//
//   operands of a rank     query       [sequences, rows, heads / R, head_dim]
//                          key, value  [sequences, keys, kv_heads / R, head_dim]
//   result, to_owners      [sequences, own rows, heads, head_dim]          from all ranks, each its own heads
//   result, local          [sequences, rows, heads / R, head_dim]
//   log_sum_exp, fp32      [sequences, heads / R, rows]                    natural logarithm, of the rank's own heads
//
// In Ulysses sequence parallelism a rank holds all tokens and heads / R of the heads during attention, and some of the
// tokens with all heads before and after it. R is the number of ranks. Rank r computes heads [r * heads / R, (r + 1) *
// heads / R) and owns ceil(rows / R) rows; the last ranks own fewer or none (`row_range`).
//
// The result is softmax(scale * query * key^T) * value, accumulated in fp32 and rounded to the element type of the
// operands. With `causal` row i attends to keys 0 to i. Every row attends to at least one key, since keys >= 1.
//
// Numerics: products of elements are exact in fp32, and scores are summed in fp32. A result is finite if all operands
// are finite and no score exceeds the range of fp32, before or after scaling. The error does not grow with the number
// of keys. With `causal` the key of a later token may hold anything, but its value may not: tokens are multiplied in
// groups of 128, counted from the first, and a later token of a group is multiplied by probability zero, which gives
// NaN if its value is NaN or infinite. Such a value therefore reaches all rows of its own group and of later groups,
// and never a row of an earlier group.
//
// Requirements: operands and results are contiguous and aligned to 16 bytes; head_dim is 64 or 128; heads and kv_heads
// are multiples of R; heads is a multiple of kv_heads; with `causal` keys == rows. A call that breaks a rule throws
// InputError with the value and the rule before anything is enqueued.
//
// Synchronisation: `launch` enqueues one kernel and returns. With `to_owners` the launches of all ranks synchronise on
// the device, so every rank must launch, and every rank must launch its handles in the same order, all handles of one
// heap on one stream of that rank. The result on a rank is complete when its kernel has ended. With `Completion::sent`
// the kernel ends earlier, when its own stores have been performed: the next kernel in the stream starts without
// waiting for peers, and a reader of the result waits for all of it (`await_arrival`) or for the rows that it reads
// (`arrivals`).
//
// Results lie in the symmetric heap and stay valid in stream order until the handle's next launch: a peer stores into
// them only after this rank has entered that launch, and by then everything before it in the stream has read them. (A
// second buffer would remove that wait. It would save little, because the first result is stored when the first tile
// has been computed, long after all ranks have entered.)
//
// Replays of a CUDA graph need no host work between them. Every wait on the device is bounded: when it times out, the
// waiting rank signals all others, and the next `check` or `launch` on each of them reports who waited for whom, until
// `reset`.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "xstage/completion.hpp"
#include "xstage/instruments.hpp"
#include "xstage/node.hpp"
#include "xstage/plan.hpp"
#include "xstage/row_range.hpp"
#include "xstage/symmetric_heap.hpp"
#include "xstage/tile_arrivals.hpp"

struct CUstream_st;

namespace xstage {

namespace attention {

enum class Element { bf16, fp16 };

/// Memory into which the kernel stores its results.
enum class Destination {
  local,      // the caller's own tensor; ranks do not communicate
  to_owners,  // each row goes to the rank that owns it
  twin,       // for measurements: the same stores as to_owners, but all of them into this rank's own memory
};

/// What is computed. All ranks pass the same problem; if they do not, the constructor of Attention throws InputError.
struct Problem {
  std::int64_t sequences = 1;
  std::int64_t rows = 0;  // of queries, in each sequence
  std::int64_t keys = 0;  // of keys and values, in each sequence
  int heads = 0;          // query heads, summed over all ranks
  int kv_heads = 0;       // heads of keys and values, summed over all ranks
  int head_dim = 128;
  bool causal = false;
  Element element = Element::bf16;
  float scale = 0;  // factor of the scores; 0 stands for 1 / sqrt(head_dim)
  Destination destination = Destination::local;
};

/// Parameters of a launch; `make_plan` fills them in.
struct Plan {
  // Bulk stores are issued by one thread for 64 rows and go through the TMA unit; the other paths store 16 bytes a
  // lane.
  StorePath store_path = StorePath::bulk;
  double drain_gb_per_s = 373.4;  // R of bulk stores that the interval is computed from; default: two H200, NVLink
  int store_interval_ns = -1;  // least time between two bulk stores of 4 KiB to peers by one warp; -1: three quarters
                               // of the drain rate if all warps store; 0: none
  int issuers = 0;             // CTAs; 0: one for each multiprocessor, at most one for each tile unless tiles are split
  // The last tiles may be too few for one round of all CTAs. 1: they are split along their keys, so that all CTAs have
  // equal work; 0: they are not split; -1: they are split where that saves more than it costs. Never with `causal`.
  int split = -1;
};

/// Arrival flags of operands that a gemm_all_to_all stores: `Gemm::arrivals` of its three parts. The Gemm is launched
/// with Completion::sent. The attention then begins when the Gemm's kernel has ended on this rank, and it waits for the
/// tiles of peers block by block.
struct InputArrivals {
  TileArrivals query;
  TileArrivals key;
  TileArrivals value;
};

/// Device addresses of one launch; the head of this file has their shapes.
struct Operands {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  void* output = nullptr;        // Destination::local only
  float* log_sum_exp = nullptr;  // [sequences, heads / R, rows]; null: not computed
  // Empty: the operands are complete when this launch begins in stream order. Only with to_owners and one sequence.
  std::optional<InputArrivals> arrivals = std::nullopt;
};

/// The rows of each sequence that a rank owns.
using xstage::row_range;
using xstage::RowRange;

/// Spans of the first two of a CTA's three multiplying warpgroups and store warps are recorded, since a trace has two
/// tracks for each of these roles.
using xstage::Instruments;

/// Arrival counters of a result, for a kernel that reads it while it arrives. Each call adds `each` to counter
/// [sequence * blocks + row / 64] when all heads of these 64 rows have arrived here; `row` counts through the whole
/// sequence. In call e, counted from 1, the rows are complete when their counter has reached e * each. Load the counter
/// with acquire semantics at system scope, followed by a proxy fence before reads by TMA: the results were written by
/// the async proxy of other GPUs.
struct Arrivals {
  const std::uint32_t* counters = nullptr;
  std::int64_t blocks = 0;  // counters of one sequence, one for 64 rows
  std::uint32_t each = 0;
};

/// Throws InputError if the problem breaks a rule for `world` ranks.
void check_problem(const Problem& problem, int world);

/// The default plan: a simple rule fills in every field. `multiprocessors` is their number on one GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// Prediction of the Burst-Gap model for this plan, for the slowest rank; src/ops/attention/audit.cpp has the
/// equations. `tensor_tflops` is the rate of the whole GPU in main loops, as attention without communication reaches
/// it. Causal tiles differ in length, and `main_loop_us` is their mean. With Destination::local and twin nothing goes
/// to peers. Throws InputError for a platform that does not know the drain rate of the plan's store path.
[[nodiscard]] PlanAudit audit_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors,
                                   const Platform& platform, double tensor_tflops);

/// Bytes that one rank's Attention allocates in the symmetric heap.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, int world);

/// Floating-point operations of both matrix products, summed over all ranks; half of them with `causal`.
[[nodiscard]] double flops(const Problem& problem);

}  // namespace attention

/// One rank's handle. Its constructor is collective: every rank constructs the same handles in the same order. A handle
/// is not thread-safe. Its launches run one at a time, in stream order.
class Attention {
 public:
  Attention(HeapRank& heap, const attention::Problem& problem, const attention::Plan& plan,
            std::chrono::microseconds time_out = std::chrono::seconds(10));
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;
  ~Attention();

  /// Enqueues the operation. Throws InputError for operands that break a rule, and DeviceError if a wait of an earlier
  /// call timed out.
  void launch(const attention::Operands& operands, CUstream_st* stream, Completion completion = Completion::arrived);

  /// Launches all virtual ranks of one GPU as one cooperative kernel. Handle i and operands i belong to rank i.
  static void launch_together(std::span<Attention* const> ranks, std::span<const attention::Operands> operands,
                              CUstream_st* stream, Completion completion = Completion::arrived);

  /// After a launch with Completion::sent: enqueues a kernel that ends when all results of that call have arrived on
  /// this rank. Enqueues nothing if no peer stores results here.
  void await_arrival(CUstream_st* stream) const;

  /// Result of to_owners, [sequences, own rows, heads, head_dim], in the symmetric heap; null if this rank owns no row.
  /// The result of a twin holds the rows of all destinations, one destination after the other.
  [[nodiscard]] void* output() const;

  /// Arrival counters of a result of to_owners. Throws InputError for other destinations.
  [[nodiscard]] attention::Arrivals arrivals() const;

  /// Throws DeviceError if a wait of this rank has timed out. The message names the waiting rank and CTA, the place,
  /// the peer, and the expected and the observed value.
  void check() const;

  /// Makes the handles usable after a time out: waits until the devices are idle, then restores epochs and signals on
  /// all ranks. Collective.
  static void reset(std::span<Attention* const> ranks);

  /// Switches spans and delays on in later launches. They are compiled into a second instantiation of the kernel.
  void instrument(const attention::Instruments& instruments);

  [[nodiscard]] const attention::Plan& plan() const;
  [[nodiscard]] const attention::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // number of CTAs of one rank's launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
