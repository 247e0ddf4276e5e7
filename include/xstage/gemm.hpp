#pragma once
// GEMM fused with a collective, for layers with tensor or sequence parallelism, on GPUs of compute capability 9.0.
// Operands and results are bf16, accumulation is in fp32.
//
//   operation             A (this rank)        B (this rank)        result on this rank
//   gemm                  [m, k]               [n, k]               [m, n]
//   gemm_reduce_scatter   [m, k / R]           [n, k / R]           [own rows of m, n]   sum over ranks
//   all_gather_gemm       [own rows of m, k]   [n / R, k]           [m, n / R]
//   gemm_all_reduce       [m, k / R]           [n, k / R]           [m, n]               sum over ranks
//   gemm_all_to_all       [own rows of m, k]   [n, k]               part i: [m, heads_i / R, head_dim]
//
// m, n and k are those of the whole problem, and R is the number of ranks. All matrices are row-major, so that B is a
// weight as torch.nn.Linear stores it. "Own rows" are ceil(m / R) rows for each rank; the last ranks own fewer or none
// (`row_range`).
//
// Requirements: operands and results are aligned to 16 bytes; n and k are multiples of 8 on every rank; m >= 1. A call
// that breaks a rule throws InputError with the value and the rule before anything is enqueued.
//
// Synchronisation: `launch` enqueues one kernel on the stream and returns. A gather by copy engine also enqueues copies
// on a second stream, which joins the first. The launches of all ranks synchronise on the device, so every rank must
// launch, and every rank must launch its handles in the same order, all handles of one heap on one stream of that rank.
// The results on a rank are complete when its kernel has ended, unless it was launched with `Completion::sent`. Replays
// of a CUDA graph need no host work between them. Every wait on the device is bounded: when it times out, the waiting
// rank signals all others, and the next `check` or `launch` on each of them reports who waited for whom, until `reset`.

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

/// One projection of gemm_all_to_all. For attention there are three, Q, K and V, in the order of B's rows.
struct HeadPart {
  int heads = 0;        // of all ranks; a multiple of R. Rank r receives heads [r * heads / R, (r + 1) * heads / R)
  bool norm = false;    // RMS norm over each head, with its weight
  bool rotary = false;  // rotary embedding: columns i and i + head_dim / 2 are a pair
};

/// What is computed. All ranks pass the same problem; if they do not, the constructor of Gemm throws InputError.
struct Problem {
  Operation operation = Operation::gemm;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  // Steps between the full sum and its store, in this order: bias, norm and rotary embedding, gate or activation.
  bool bias = false;
  Activation activation = Activation::none;
  bool gated = false;  // rows of B alternate 8 of the gate, 8 of the up projection; result activation(gate) * up, n / 2
                       // wide. gemm and all_gather_gemm only

  // For reduce_scatter and two-shot all_reduce: partial sums travel in fp32, twice the volume, instead of bf16.
  bool fp32_partials = false;

  // For all_to_all only.
  std::vector<HeadPart> parts;
  int head_dim = 128;  // 64 or 128
  float norm_epsilon = 1e-6F;
};

/// The rows of m that a rank owns.
using xstage::row_range;
using xstage::RowRange;

/// Device addresses of one launch. Addresses that the problem does not use stay null.
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  // Of gemm, reduce_scatter and all_gather; peers store the other results into the symmetric heap.
  void* output = nullptr;
  const void* bias = nullptr;          // bf16 [rows of B]
  const float* norm_weight = nullptr;  // [parts with norm, head_dim]
  const float* rotary = nullptr;       // fp32 [m, head_dim / 2, 2]: cosine and sine of every position
};

using xstage::Instruments;

/// The default plan: a simple rule fills in every field. `multiprocessors` is their number on one GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// The same with the drain rate of a calibrated platform's bulk stores instead of that of two H200. Throws InputError
/// if the profile has none.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors, const Platform& platform);

/// Prediction of the Burst-Gap model for a plan on a platform, for the rank with most rows. `tensor_tflops` is the
/// dense bf16 rate of the whole GPU that the GEMM reaches without communication. Throws InputError for a problem or
/// plan that breaks a rule, a rate that is not above zero, and a platform that does not know the drain rate of the
/// plan's store path.
[[nodiscard]] PlanAudit audit_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors,
                                   const Platform& platform, double tensor_tflops);

/// Throws InputError if the problem breaks a rule for `world` ranks.
void check_problem(const Problem& problem, int world);

/// Bytes that one rank's Gemm allocates in the symmetric heap.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, const Plan& plan, int world);

}  // namespace gemm

/// One rank's handle: its signal pad, its slots or gathered operand, its epochs. Its constructor is collective: every
/// rank constructs the same handles in the same order. A handle is not thread-safe. Its launches run one at a time, in
/// stream order.
class Gemm {
 public:
  Gemm(HeapRank& heap, const gemm::Problem& problem, const Plan& plan,
       std::chrono::microseconds time_out = std::chrono::seconds(10));
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  ~Gemm();

  /// Enqueues the operation. Throws InputError for operands that break a rule, and DeviceError if a wait of an earlier
  /// call timed out.
  void launch(const gemm::Operands& operands, CUstream_st* stream, Completion completion = Completion::arrived);

  /// Launches all virtual ranks of one GPU as one cooperative kernel. Handle i and operands i belong to rank i.
  static void launch_together(std::span<Gemm* const> ranks, std::span<const gemm::Operands> operands,
                              CUstream_st* stream, Completion completion = Completion::arrived);

  /// After a launch with Completion::sent: enqueues a kernel that ends when all results of that call have arrived on
  /// this rank. Enqueues nothing if no peer stores results here. Only all_to_all and two-shot all_reduce use
  /// Completion::sent.
  void await_arrival(CUstream_st* stream) const;

  /// For all_to_all: arrival flags of each tile of a part, for a kernel behind it in the stream that reads early tiles
  /// while later ones arrive.
  [[nodiscard]] TileArrivals arrivals(int part) const;

  /// Result of all_reduce (part 0) or of all_to_all. It lies in the symmetric heap, since peers store into it, and
  /// stays valid in this rank's stream order until the handle's next launch.
  [[nodiscard]] void* output(int part = 0) const;

  /// Throws DeviceError if a wait of this rank has timed out. The message names the waiting rank and CTA, the place,
  /// the peer, and the expected and the observed value.
  void check() const;

  /// Makes the handles usable after a time out: waits until the devices are idle, then restores epochs and signals on
  /// all ranks. Collective.
  static void reset(std::span<Gemm* const> ranks);

  /// Switches spans and delays on in later launches. They are compiled into a second instantiation of the kernel.
  void instrument(const gemm::Instruments& instruments);

  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] const gemm::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // number of CTAs of one rank's launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
