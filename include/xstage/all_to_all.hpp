#pragma once
// All-to-all of attention's output (Ulysses sequence parallelism) as a kernel of its own, on GPUs of compute capability
// 9.0. An unfused Attention followed by this kernel gives the same result as one Attention with Destination::to_owners
// (attention.hpp).
//
//   input of a rank   [sequences, rows, heads / R, head_dim]   all rows, of the rank's own heads
//   result            [sequences, own rows, heads, head_dim]   from all ranks, each its own heads
//
// Elements are 2 bytes wide and are copied unchanged, so that bf16 and fp16 are served alike. R is the number of ranks.
// Rank r holds heads [r * heads / R, (r + 1) * heads / R) and owns ceil(rows / R) rows of each sequence; the last ranks
// own fewer or none (row_range.hpp).
//
// Requirements: the input is contiguous and aligned to 16 bytes; heads is a multiple of R; head_dim is a multiple of 8.
// A call that breaks a rule throws InputError with the value and the rule before anything is enqueued.
//
// Synchronisation: `launch` enqueues one kernel and returns. The launches of all ranks synchronise on the device, so
// every rank must launch, and every rank must launch its handles in the same order, all handles of one heap on one
// stream of that rank. The result on a rank is complete when the kernel of that rank has ended. It lies in the
// symmetric heap and stays valid in stream order until the handle's next launch. Replays of a CUDA graph need no host
// work between them. Every wait on the device is bounded: when it times out, the waiting rank signals all others, and
// the next `check` or `launch` on each of them reports who waited for whom, until `reset`.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "xstage/symmetric_heap.hpp"

struct CUstream_st;

namespace xstage {

namespace all_to_all {

/// Shape of the exchange. All ranks pass the same one; if they do not, the constructor of AllToAll throws InputError.
struct Problem {
  std::int64_t sequences = 1;
  std::int64_t rows = 0;  // in each sequence, summed over all ranks
  int heads = 0;          // summed over all ranks
  int head_dim = 128;
};

/// How the rows of a chunk leave shared memory. In the result these rows are not contiguous: the pitch of the result
/// lies between them.
enum class Transfer {
  by_rule,  // rows if a row is long (src/ops/all_to_all/plan.cpp), else boxes
  rows,     // one bulk store (cp.async.bulk) for each row
  boxes,    // one TMA tensor store for the whole chunk
};

/// Parameters of a launch. `make_plan` and the constructor of AllToAll choose every field that is 0.
struct Plan {
  Transfer transfer = Transfer::by_rule;
  int chunk_bytes = 0;  // size of one load: whole rows, or some heads of a longer row
  int stages = 0;       // chunks in a CTA's ring in shared memory, 3 to 16
  int issuers = 0;      // CTAs
  // The first `peer_issuers` CTAs store to peers and the others copy the rank's own rows at the same time. They are
  // separated because a remote store that waits for the fabric delays all later stores of its multiprocessor. If all
  // CTAs store to peers, they copy the rank's own rows last.
  int peer_issuers = 0;
};

/// Device address of one launch: [sequences, rows, heads / R, head_dim], aligned to 16 bytes.
struct Operands {
  const void* input = nullptr;
};

/// Throws InputError if the problem breaks a rule for `world` ranks.
void check_problem(const Problem& problem, int world);

/// The default plan: a simple rule fills in every field. `multiprocessors` is their number on one GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// Bytes that one rank's AllToAll allocates in the symmetric heap.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, int world);

/// Bytes that one rank stores to its peers in one call; the maximum over ranks.
[[nodiscard]] std::int64_t remote_bytes(const Problem& problem, int world);

}  // namespace all_to_all

/// One rank's handle. Its constructor is collective: every rank constructs the same handles in the same order. A handle
/// is not thread-safe. Its launches run one at a time, in stream order.
class AllToAll {
 public:
  AllToAll(HeapRank& heap, const all_to_all::Problem& problem, const all_to_all::Plan& plan,
           std::chrono::microseconds time_out = std::chrono::seconds(10));
  AllToAll(AllToAll&&) noexcept;
  AllToAll& operator=(AllToAll&&) noexcept;
  ~AllToAll();

  /// Enqueues the operation. Throws InputError for operands that break a rule, and DeviceError if a wait of an earlier
  /// call timed out.
  void launch(const all_to_all::Operands& operands, CUstream_st* stream);

  /// Launches all virtual ranks of one GPU as one cooperative kernel. Handle i and operands i belong to rank i.
  static void launch_together(std::span<AllToAll* const> ranks, std::span<const all_to_all::Operands> operands,
                              CUstream_st* stream);

  /// The result in the symmetric heap, [sequences, own rows, heads, head_dim]; null if this rank owns no row.
  [[nodiscard]] void* output() const;

  /// Throws DeviceError if a wait of this rank has timed out. The message names the waiting rank and CTA, the place,
  /// the peer, and the expected and the observed value.
  void check() const;

  /// Makes the handles usable after a time out: waits until the devices are idle, then restores epochs and signals on
  /// all ranks. Collective.
  static void reset(std::span<AllToAll* const> ranks);

  [[nodiscard]] const all_to_all::Plan& plan() const;
  [[nodiscard]] const all_to_all::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // number of CTAs of one rank's launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
