#pragma once
// Attention whose results go straight to the ranks that own their rows (Ulysses), on GPUs of compute capability 9.0.
//
//   operands of a rank     query       [sequences, rows, heads / R, head_dim]
//                          key, value  [sequences, keys, kv_heads / R, head_dim]
//   result, to_owners      [sequences, own rows, heads, head_dim]          from all ranks, each its own heads
//   result, local          [sequences, rows, heads / R, head_dim]
//   log_sum_exp, fp32      [sequences, heads / R, rows]                    natural logarithm, of the rank's own heads
//
// Sequence parallelism for transformers: during attention a rank holds all tokens and heads / R of the heads; before
// and after it some of the tokens and all heads. R is the number of ranks, rank r computes heads [r * heads / R,
// (r + 1) * heads / R) and owns ceil(rows / R) rows, fewer or none for the last ranks (`row_range`).
//
// softmax(scale * query * key^T) * value, fp32 accumulation, results in the element type of the operands. With `causal`
// row i sees keys 0 to i. Rows that see no key do not exist: keys >= 1.
//
// Numbers: scores are exact products in fp32, their sums in fp32; a result is a number if all operands are and no
// score, scaled or not, exceeds fp32. The error does not grow with the number of keys. With `causal` the key of a later
// token may be anything, its value may not: tokens are multiplied in groups of 128, counted from the first, a later one
// by probability zero, and zero times NaN or infinity is NaN. A value that is NaN or infinite thus reaches all rows of
// its group and of later ones, never those of an earlier group.
//
// Requirements: operands and results aligned to 16 bytes, contiguous; head_dim 64 or 128; heads and kv_heads multiples
// of R, heads a multiple of kv_heads; causal: keys == rows. Everything that breaks a rule throws InputError with the
// value and the rule, before anything is enqueued.
//
// Synchronisation: `launch` enqueues one kernel and returns. With `to_owners` the ranks' launches find each other on
// the device; they must be enqueued in the same order on every rank, all handles of a heap on one stream a rank, and
// every rank must launch. The result on a rank is complete when its kernel has finished, unless it was launched with
// `Completion::sent`: then the next kernel in the stream need not wait for peers, and who reads the result waits for
// all of it (`await_arrival`) or for the rows that it reads (`arrivals`). Results lie in the symmetric heap and stay
// valid in stream order until the handle's next launch: a peer stores into them only after this rank has entered that
// launch, which is the acknowledgement that everything before it in the stream has read them. (A second buffer would
// save that wait, but the first result is stored when the first tile has been computed, long after all ranks have
// entered.) No host work between replays of a CUDA graph. A rank that waits longer than the time-out gives up, tells
// the others, and the next `check` or `launch` on each of them says who waited for whom, until `reset`; nothing hangs.

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

/// Where results go.
enum class Destination {
  local,      // plain attention: into the caller's own tensor, no rank knows of another
  to_owners,  // every row to the rank that owns it
  twin,       // measurement: the stores of to_owners, but all of them into this rank's own memory
};

/// What is computed. The same on every rank; ranks that disagree are told apart when the Attention is made.
struct Problem {
  std::int64_t sequences = 1;
  std::int64_t rows = 0;  // of queries, in each sequence
  std::int64_t keys = 0;  // and of values
  int heads = 0;          // of queries, all ranks together
  int kv_heads = 0;       // of keys and values, all ranks together
  int head_dim = 128;
  bool causal = false;
  Element element = Element::bf16;
  float scale = 0;  // of the scores; 0: 1 / sqrt(head_dim)
  Destination destination = Destination::local;
};

/// Numbers of a launch; `make_plan` fills them in.
struct Plan {
  // Bulk stores go through the copy engine, one thread each 64 rows; direct ones are 16 bytes a lane.
  StorePath store_path = StorePath::bulk;
  double drain_gb_per_s = 373.4;  // R of bulk stores that the interval is computed from; default: two H200, NVLink
  int store_interval_ns = -1;  // least time between two bulk stores of 4 KiB to peers by one warp; -1: three quarters
                               // of the drain rate if all warps store; 0: none
  int issuers = 0;             // CTAs; 0: one for each multiprocessor, at most one for each tile unless tiles are split
  // 1: tiles that are left over for less than one round of all CTAs are split along their keys, so that all have the
  // same to do; 0: not; -1: where that saves more than it costs. Not with causal.
  int split = -1;
};

/// Arrival of operands that gemm_all_to_all brings: `Gemm::arrivals` of its parts. The attention then begins when the
/// Gemm's kernel has ended on this rank, launched with Completion::sent, and waits for the peers' tiles block by block.
struct InputArrivals {
  TileArrivals query;
  TileArrivals key;
  TileArrivals value;
};

/// Device addresses of one launch.
struct Operands {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  void* output = nullptr;        // Destination::local only
  float* log_sum_exp = nullptr;  // null: not wanted
  // None: what is before this launch in the stream has brought the operands. Only with to_owners, one sequence.
  std::optional<InputArrivals> arrivals = std::nullopt;
};

/// Rows of each sequence that a rank owns.
using xstage::row_range;
using xstage::RowRange;

/// Of the three multiplying and storing warps of a CTA the first two are recorded: there are two roles of each kind.
using xstage::Instruments;

/// How far a result has come, for a kernel that reads it while it arrives. Counter [sequence * blocks + row / 64], row
/// counted in the whole sequence, has grown by `each` in every call when all heads of these 64 rows have arrived here:
/// in call e (from 1) it is complete when it has reached e * each. Acquire it at system scope; the results were written
/// by the async proxy of other GPUs.
struct Arrivals {
  const std::uint32_t* counters = nullptr;
  std::int64_t blocks = 0;  // of 64 rows in a sequence
  std::uint32_t each = 0;
};

/// Throws InputError if the problem breaks a rule for that many ranks.
void check_problem(const Problem& problem, int world);

/// The plan that the first simple rule picks; `multiprocessors` are those of the GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// What the Burst-Gap model expects of the plan, of the rank that it takes longest; src/ops/attention/audit.cpp has the
/// equations. `tensor_tflops`: rate of the whole GPU in main loops, as attention alone reaches it. Causal tiles differ
/// in length: `main_loop_us` is their mean. Unless results go to their owners nothing goes to peers. Throws InputError
/// for a platform that cannot say how fast such stores drain.
[[nodiscard]] PlanAudit audit_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors,
                                   const Platform& platform, double tensor_tflops);

/// Bytes of symmetric heap that one rank's Attention takes.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, int world);

/// Floating-point operations of all ranks together: two products, causal ones counted by half.
[[nodiscard]] double flops(const Problem& problem);

}  // namespace attention

/// One rank's handle. Making one is collective: every rank makes the same ones in the same order. Not thread-safe; one
/// launch of a handle at a time is under way on its stream.
class Attention {
 public:
  Attention(HeapRank& heap, const attention::Problem& problem, const attention::Plan& plan,
            std::chrono::microseconds time_out = std::chrono::seconds(10));
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;
  ~Attention();

  /// Enqueues the operation. Throws InputError for operands that break a rule, DeviceError if an earlier call gave up.
  void launch(const attention::Operands& operands, CUstream_st* stream, Completion completion = Completion::arrived);

  /// All virtual ranks of one GPU in one cooperative launch; handle i and operands i belong to rank i.
  static void launch_together(std::span<Attention* const> ranks, std::span<const attention::Operands> operands,
                              CUstream_st* stream, Completion completion = Completion::arrived);

  /// After a launch with Completion::sent: enqueues a kernel that ends when all results of that call have arrived on
  /// this rank. Enqueues nothing where no peer stores.
  void await_arrival(CUstream_st* stream) const;

  /// Result of to_owners [sequences, own rows, heads, head_dim] in the symmetric heap; null if this rank owns no row.
  /// Of a twin: destination d's rows lie behind those of destination d - 1.
  [[nodiscard]] void* output() const;

  /// Of to_owners. InputError for other destinations.
  [[nodiscard]] attention::Arrivals arrivals() const;

  /// Throws DeviceError if a wait of this rank has expired: who waited, where, for whom, for what, what was there.
  void check() const;

  /// After an expiry: waits for the devices, then restores epochs and signals on all ranks. Collective.
  static void reset(std::span<Attention* const> ranks);

  /// Only in launches after this call; compiled into a second instantiation of the kernel.
  void instrument(const attention::Instruments& instruments);

  [[nodiscard]] const attention::Plan& plan() const;
  [[nodiscard]] const attention::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // CTAs of a launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
