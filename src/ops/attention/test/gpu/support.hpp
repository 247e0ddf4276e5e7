#pragma once
// What the GPU tests of Attention share: random cases, the operands and results of a call, the ranks of one operation
// in this process.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "gpu/rank_support.hpp"
#include "xstage/attention.hpp"

namespace xstage::attention_test {

using gpu_test::Random;

/// A whole problem with a complete plan for it.
struct Case {
  attention::Problem problem;
  attention::Plan plan;
  int ranks = 1;
  bool log_sum_exp = true;  // wanted
  [[nodiscard]] std::string text() const;

  // Extents, stated without the library's functions.
  [[nodiscard]] int heads_each() const { return problem.heads / ranks; }
  [[nodiscard]] int kv_heads_each() const { return problem.kv_heads / ranks; }
  [[nodiscard]] std::int64_t rows_each() const { return (problem.rows + ranks - 1) / ranks; }
  [[nodiscard]] std::int64_t rows_begin(int rank) const;
  [[nodiscard]] std::int64_t own_rows(int rank) const { return rows_begin(rank + 1) - rows_begin(rank); }
  [[nodiscard]] int owner(std::int64_t row) const { return static_cast<int>(row / rows_each()); }
  /// Elements of what a rank has afterwards, in its own tensor or in the heap, and of one row of it.
  [[nodiscard]] std::int64_t result_elements(int rank) const;
  [[nodiscard]] std::int64_t result_columns() const;
  /// Elements of the result that the ranks' kernels write on this rank: of a twin only its own heads.
  [[nodiscard]] std::int64_t written_elements(int rank) const;
  /// Where head `head` of those of rank `rank` ends up.
  struct Place {
    int holder = 0;  // rank
    std::int64_t offset = 0;
  };
  [[nodiscard]] Place place(int rank, std::int64_t sequence, std::int64_t row, int head) const;
};

/// Fills in what the plan leaves open, for GPU 0.
[[nodiscard]] Case make_case(const attention::Problem& problem, int ranks, const attention::Plan& plan = {},
                             bool log_sum_exp = true);

/// heads and kv_heads are those of each rank.
[[nodiscard]] attention::Problem make_problem(attention::Destination destination, int ranks, std::int64_t rows,
                                              std::int64_t keys, int heads = 2, int kv_heads = 2, int head_dim = 128);

/// A small problem and plan: tails in every extent, sometimes ranks without rows.
[[nodiscard]] Case random_case(attention::Destination destination, int ranks, Random& random);

/// Values of the operands.
enum class Pattern {
  normal,        // scores are normally distributed about 0 with standard deviation 1
  far_apart,     // with standard deviation 100
  equal_scores,  // all keys of a head are the same
  one_huge_key,  // one key of each head has a score above 100, those of the others are about 1
};

/// One rank's operands as they were rounded to the element type.
struct HostOperands {
  std::vector<float> query, key, value;
};

/// Operands and results of one call on all ranks.
class Call {
 public:
  /// Fresh random operands, results full of NaN.
  Call(const Case& which, const std::vector<int>& devices, std::uint64_t seed, Pattern pattern = Pattern::normal);

  /// Other operands at the same addresses. The GPUs must be idle.
  void refill(std::uint64_t seed, Pattern pattern = Pattern::normal);
  /// NaN in all results. The GPUs must be idle.
  void poison() const;

  [[nodiscard]] attention::Operands operands(int rank) const;
  [[nodiscard]] const HostOperands& host(int rank) const { return host_[static_cast<std::size_t>(rank)]; }
  /// Where the result of that rank ends up: the operation's own output or a copy from the symmetric heap.
  [[nodiscard]] std::uint16_t* result(int rank) const;
  [[nodiscard]] std::vector<std::uint16_t> read_result(int rank) const;
  [[nodiscard]] std::vector<float> read_log_sum_exp(int rank) const;
  /// Whether the memory around the results, and an unused log_sum_exp, are still as poison() left them.
  [[nodiscard]] bool guards_are_untouched() const;

 private:
  struct DeviceSide {
    int device = 0;
    cuda::DeviceBuffer query, key, value;
    cuda::DeviceBuffer result;       // guard, the result, guard
    cuda::DeviceBuffer log_sum_exp;  // the same
  };

  Case case_;
  std::vector<HostOperands> host_;
  std::vector<DeviceSide> there_;
};

/// Results of all ranks with their log_sum_exp, bit by bit.
[[nodiscard]] std::vector<std::uint16_t> all_bits(const Case& which, const Call& call);

/// The handles of all ranks with their heap and streams. Ranks that share a GPU are virtual ones.
class Ranks {
 public:
  Ranks(const Case& which, const std::vector<int>& devices,
        std::chrono::microseconds time_out = std::chrono::seconds(5));

  [[nodiscard]] Attention& operator[](int rank) { return *handles_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  [[nodiscard]] cudaStream_t stream(int rank) const;
  [[nodiscard]] PeerAccessHeap& heap() { return heap_; }
  /// Words of a rank's signal pad.
  [[nodiscard]] std::uint32_t* signals(int rank);
  [[nodiscard]] std::vector<Attention*> handles();

  /// Completion of later launches. With `sent` each is followed by a wait for the peers' results.
  void complete_by(Completion completion) { completion_ = completion; }

  /// Enqueues a call on all ranks, and with it the copy of results that lie in the heap. Does not wait, except for
  /// virtual ranks.
  void enqueue(const Call& call);
  /// Launches virtual ranks together, also for a local operation.
  void enqueue_together(const Call& call);
  /// Launches one rank alone.
  void enqueue_rank(const Call& call, int rank);
  /// The launch alone, with its wait: results in the heap stay there.
  void launch_rank(const Call& call, int rank);
  /// Copies the result of a rank that lies in the heap, in its stream.
  void collect(const Call& call, int rank);

  /// Waits until all streams are idle.
  void wait() const;
  /// wait(), then every rank's check().
  void finish();
  /// Whether the heap before and behind what the operation takes, and the part of a result's buffer that this rank has
  /// no rows for, are untouched.
  [[nodiscard]] bool guards_are_untouched();

 private:
  void poison_heap_result(int rank);
  void await_arrival(int rank);
  [[nodiscard]] bool is_poisoned(const void* pointer, std::size_t bytes) const;

  Case case_;
  std::vector<int> devices_;
  bool virtual_ = false;
  Completion completion_ = Completion::arrived;
  PeerAccessHeap heap_;
  SymmetricBuffer before_{};
  SymmetricBuffer behind_{};
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<Attention>> handles_;
};

}  // namespace xstage::attention_test
