#pragma once
// GEMM fused with collectives, for tensor and sequence parallel layers. bf16 operands, fp32 accumulation, bf16 results,
// on GPUs of compute capability 9.0.
//
//   operation             A (this rank)        B (this rank)        result on this rank
//   gemm                  [m, k]               [n, k]               [m, n]
//   gemm_reduce_scatter   [m, k / R]           [n, k / R]           [own rows of m, n]   sum over ranks
//   all_gather_gemm       [own rows of m, k]   [n / R, k]           [m, n / R]
//   gemm_all_reduce       [m, k / R]           [n, k / R]           [m, n]               sum over ranks
//   gemm_all_to_all       [own rows of m, k]   [n, k]               part i: [m, heads_i / R, head_dim]
//
// m, n, k are of the whole problem, R is the number of ranks. All matrices are row-major, so that B is a weight as
// torch.nn.Linear stores it. "Own rows" are ceil(m / R) for each rank, fewer or none for the last ones (`row_range`).
//
// Requirements: operands and results aligned to 16 bytes; n and k multiples of 8 on every rank; m >= 1. Everything that
// breaks a rule throws InputError with the value and the rule, before anything is enqueued.
//
// Synchronisation: `launch` enqueues one kernel on the stream, and for a gather by copy engine copies on a second
// stream that joins it, and returns. The ranks' launches find each other on the device; they must be enqueued in the
// same order on every rank, all handles of a heap on one stream a rank, and every rank must launch. The results on a
// rank are complete when its kernel has finished, unless it was launched with `Completion::sent`. Captured into CUDA
// graphs it needs no host work between replays. A rank that waits longer than the time-out gives up, tells the others,
// and the next call of `check` or `launch` on each of them says who waited for whom, until `reset`; nothing hangs.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "xstage/completion.hpp"
#include "xstage/instruments.hpp"
#include "xstage/plan.hpp"
#include "xstage/row_range.hpp"
#include "xstage/symmetric_heap.hpp"
#include "xstage/tile_arrivals.hpp"

struct CUstream_st;

namespace xstage {

namespace gemm {

enum class Operation { gemm, reduce_scatter, all_gather, all_reduce, all_to_all };

enum class Activation { none, gelu, gelu_tanh, silu };

/// One projection of an all-to-all: for attention Q, K and V, in the order of B's rows.
struct HeadPart {
  int heads = 0;        // of all ranks; a multiple of R. Rank r receives heads [r * heads / R, (r + 1) * heads / R)
  bool norm = false;    // RMS norm over each head, with its weight
  bool rotary = false;  // rotary embedding: columns i and i + head_dim / 2 are a pair
};

/// What is computed. The same on every rank; ranks that disagree are told apart when the Gemm is made.
struct Problem {
  Operation operation = Operation::gemm;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  // Steps between sum and store, in this order: bias, norm and rotary, gate or activation.
  bool bias = false;
  Activation activation = Activation::none;
  bool gated = false;  // rows of B alternate 8 of the gate, 8 of the up projection; result activation(gate) * up, n / 2
                       // wide. gemm and all_gather_gemm only

  // reduce_scatter and all_reduce in two shots: partial sums travel in fp32, twice the volume, instead of bf16.
  bool fp32_partials = false;

  // all_to_all only.
  std::vector<HeadPart> parts;
  int head_dim = 128;  // 64 or 128
  float norm_epsilon = 1e-6F;
};

/// Rows of m that a rank owns.
using xstage::row_range;
using xstage::RowRange;

/// Device addresses of one launch. Those that the problem does not use stay null.
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* output = nullptr;              // where no peer stores: gemm, reduce_scatter, all_gather
  const void* bias = nullptr;          // bf16 [rows of B]
  const float* norm_weight = nullptr;  // [parts with norm, head_dim]
  const float* rotary = nullptr;       // [m, head_dim / 2, 2]: cosine and sine of every position
};

using xstage::Instruments;

/// The plan that the first simple rule picks; `multiprocessors` are those of the GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// The same for a calibrated platform: its drain rate of bulk stores instead of two H200's. Throws InputError if the
/// profile has none.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors, const Platform& platform);

/// What the model expects of a plan on a platform, for the rank with most rows. `tensor_tflops` is the rate of the
/// whole GPU (dense bf16) that the GEMM reaches without communication. Throws InputError for a problem or plan that
/// breaks a rule, a rate that is not above zero, and a platform that does not know the drain rate of the plan's store
/// path.
[[nodiscard]] PlanAudit audit_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors,
                                   const Platform& platform, double tensor_tflops);

/// Throws InputError if the problem breaks a rule for that many ranks.
void check_problem(const Problem& problem, int world);

/// Bytes of symmetric heap that one rank's Gemm takes.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, const Plan& plan, int world);

}  // namespace gemm

/// One rank's handle: its signal pad, its slots or gathered operand, its epoch. Making one is collective: every rank
/// makes the same ones in the same order. Not thread-safe; one launch of a handle at a time is under way on its stream.
class Gemm {
 public:
  Gemm(HeapRank& heap, const gemm::Problem& problem, const Plan& plan,
       std::chrono::microseconds time_out = std::chrono::seconds(10));
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  ~Gemm();

  /// Enqueues the operation. Throws InputError for operands that break a rule, DeviceError if an earlier call gave up.
  void launch(const gemm::Operands& operands, CUstream_st* stream, Completion completion = Completion::arrived);

  /// All virtual ranks of one GPU in one cooperative launch; handle i and operands i belong to rank i.
  static void launch_together(std::span<Gemm* const> ranks, std::span<const gemm::Operands> operands,
                              CUstream_st* stream, Completion completion = Completion::arrived);

  /// After a launch with Completion::sent, which all_to_all and all_reduce in two shots heed: enqueues a kernel that
  /// ends when all results of that call have arrived on this rank. Enqueues nothing where no peer stores results.
  void await_arrival(CUstream_st* stream) const;

  /// all_to_all: flags of a part's arrival, tile by tile, for a kernel behind it in the stream that reads early tiles
  /// while later ones arrive.
  [[nodiscard]] TileArrivals arrivals(int part) const;

  /// Result of all_reduce (part 0) and of all_to_all: lies in the symmetric heap, since peers store into it. Valid in
  /// this rank's stream order until the handle's next launch.
  [[nodiscard]] void* output(int part = 0) const;

  /// Throws DeviceError if a wait of this rank has expired: who waited, where, for whom, for what, what was there.
  void check() const;

  /// After an expiry: waits for the devices, then restores epochs and signals on all ranks. Collective.
  static void reset(std::span<Gemm* const> ranks);

  /// Only in launches after this call; compiled into a second instantiation of the kernel.
  void instrument(const gemm::Instruments& instruments);

  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] const gemm::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // CTAs of a launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
