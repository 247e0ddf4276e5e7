#pragma once
// All-to-all of attention's output (Ulysses) as a kernel of its own, on GPUs of compute capability 9.0.
//
//   input of a rank   [sequences, rows, heads / R, head_dim]   all rows, of the rank's own heads
//   result            [sequences, own rows, heads, head_dim]   from all ranks, each its own heads
//
// Elements have 2 bytes, whatever they mean. R is the number of ranks, rank r holds heads [r * heads / R, (r + 1) *
// heads / R) and owns ceil(rows / R) rows of each sequence, fewer or none for the last ranks (row_range.hpp).
// With a plain Attention before it, this is what an Attention to its owners does in one kernel.
//
// Requirements: input aligned to 16 bytes, contiguous; heads a multiple of R; head_dim a multiple of 8. Everything that
// breaks a rule throws InputError with the value and the rule, before anything is enqueued.
//
// Synchronisation: as attention.hpp describes it. `launch` enqueues one kernel and returns; the ranks' launches find
// each other on the device; they must be enqueued in the same order on every rank, all handles of a heap on one stream
// a rank, and every rank must launch. The result on a rank is complete when its kernel has finished, lies in the
// symmetric heap, and stays valid in stream order until the handle's next launch. No host work between replays of a
// CUDA graph. A rank that waits longer than the time-out gives up, tells the others, and the next `check` or `launch`
// on each of them says who waited for whom, until `reset`; nothing hangs.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "xstage/symmetric_heap.hpp"

struct CUstream_st;

namespace xstage {

namespace all_to_all {

/// What is moved. The same on every rank; ranks that disagree are told apart when the AllToAll is made.
struct Problem {
  std::int64_t sequences = 1;
  std::int64_t rows = 0;  // in each sequence, of all ranks together
  int heads = 0;          // of all ranks together
  int head_dim = 128;
};

/// How the rows of a chunk leave shared memory; their destinations are as far apart as rows of the result.
enum class Transfer {
  by_rule,  // rows that are long, boxes otherwise
  rows,     // a bulk store for each row
  boxes,    // one tensor store for the whole chunk
};

/// Numbers of a launch; `make_plan` fills in what is 0.
struct Plan {
  Transfer transfer = Transfer::by_rule;
  int chunk_bytes = 0;  // what is loaded at once: whole rows, or some heads of a longer row
  int stages = 0;       // chunks that a CTA holds, 3 to 16
  int issuers = 0;      // CTAs
  // The first of them store to peers, the others copy the own rows meanwhile: on the multiprocessor of a remote store
  // that waits for the fabric, everything behind it waits. All of them: the own rows come last.
  int peer_issuers = 0;
};

/// Device address of one launch.
struct Operands {
  const void* input = nullptr;
};

/// Throws InputError if the problem breaks a rule for that many ranks.
void check_problem(const Problem& problem, int world);

/// The plan that the first simple rule picks; `multiprocessors` are those of the GPU.
[[nodiscard]] Plan make_plan(const Problem& problem, int world, int multiprocessors);

/// Bytes of symmetric heap that one rank's AllToAll takes.
[[nodiscard]] std::size_t heap_bytes(const Problem& problem, int world);

/// Bytes that a rank stores to its peers, that with most of them.
[[nodiscard]] std::int64_t remote_bytes(const Problem& problem, int world);

}  // namespace all_to_all

/// One rank's handle. Making one is collective: every rank makes the same ones in the same order. Not thread-safe; one
/// launch of a handle at a time is under way on its stream.
class AllToAll {
 public:
  AllToAll(HeapRank& heap, const all_to_all::Problem& problem, const all_to_all::Plan& plan,
           std::chrono::microseconds time_out = std::chrono::seconds(10));
  AllToAll(AllToAll&&) noexcept;
  AllToAll& operator=(AllToAll&&) noexcept;
  ~AllToAll();

  /// Enqueues the operation. Throws InputError for operands that break a rule, DeviceError if an earlier call gave up.
  void launch(const all_to_all::Operands& operands, CUstream_st* stream);

  /// All virtual ranks of one GPU in one cooperative launch; handle i and operands i belong to rank i.
  static void launch_together(std::span<AllToAll* const> ranks, std::span<const all_to_all::Operands> operands,
                              CUstream_st* stream);

  /// The result in the symmetric heap; null if this rank owns no row.
  [[nodiscard]] void* output() const;

  /// Throws DeviceError if a wait of this rank has expired: who waited, where, for whom, for what, what was there.
  void check() const;

  /// After an expiry: waits for the devices, then restores epochs and signals on all ranks. Collective.
  static void reset(std::span<AllToAll* const> ranks);

  [[nodiscard]] const all_to_all::Plan& plan() const;
  [[nodiscard]] const all_to_all::Problem& problem() const;
  [[nodiscard]] int issuers() const;  // CTAs of a launch

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xstage
