#pragma once
// What the GPU tests of AllToAll share: random cases, the operands and results of a call, the ranks of one operation in
// this process.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "gpu/rank_support.hpp"
#include "xstage/all_to_all.hpp"

namespace xstage::all_to_all_test {

using all_to_all::Operands;
using all_to_all::Plan;
using all_to_all::Problem;
using all_to_all::Transfer;
using gpu_test::Random;
using gpu_test::two_gpus;
using gpu_test::virtual_ranks;

using Elements = std::vector<std::uint16_t>;

/// A whole problem with a complete plan for it.
struct Case {
  Problem problem;
  Plan plan;
  int ranks = 1;

  [[nodiscard]] std::string text() const;
  // Extents, stated without the library's functions.
  [[nodiscard]] int heads_each() const { return problem.heads / ranks; }
  [[nodiscard]] std::int64_t rows_each() const { return (problem.rows + ranks - 1) / ranks; }
  [[nodiscard]] std::int64_t rows_begin(int rank) const { return std::min(problem.rows, rank * rows_each()); }
  [[nodiscard]] std::int64_t own_rows(int rank) const { return rows_begin(rank + 1) - rows_begin(rank); }
  [[nodiscard]] std::size_t input_elements() const;
  /// Elements of the buffer in the heap, which on every rank is as large as that of rank 0.
  [[nodiscard]] std::size_t buffer_elements() const;
};

/// Fills in what the plan leaves open, for GPU 0.
[[nodiscard]] Case make_case(const Problem& problem, int ranks, const Plan& plan = {});

/// Tails in every extent, sometimes ranks without rows.
[[nodiscard]] Case random_case(int ranks, Random& random);

/// Operands of one call on all ranks, and copies of its results.
class Call {
 public:
  Call(const Case& which, const std::vector<int>& devices, std::uint64_t seed);

  /// Other operands at the same addresses. The GPUs must be idle.
  void refill(std::uint64_t seed);

  [[nodiscard]] Operands operands(int rank) const { return {there_[static_cast<std::size_t>(rank)].as<void>()}; }
  [[nodiscard]] void* result(int rank) const { return results_[static_cast<std::size_t>(rank)].as<void>(); }

  /// Every element on every rank, behind its own rows the poison, and inputs as they were.
  void expect_right() const;

 private:
  Case case_;
  std::vector<int> devices_;
  std::vector<Elements> inputs_;
  std::vector<cuda::DeviceBuffer> there_;
  std::vector<cuda::DeviceBuffer> results_;
};

/// The handles of all ranks with their heap and streams. Ranks that share a GPU are virtual ones.
class Ranks {
 public:
  Ranks(const Case& which, const std::vector<int>& devices,
        std::chrono::microseconds time_out = std::chrono::seconds(5));

  [[nodiscard]] AllToAll& operator[](int rank) { return *handles_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  [[nodiscard]] cudaStream_t stream(int rank) const;
  [[nodiscard]] std::vector<AllToAll*> handles() const;
  /// Words of a rank's signal pad.
  [[nodiscard]] std::uint32_t* signals(int rank);

  /// Enqueues poison, launch and copy of the result on all ranks. Does not wait, except for virtual ranks.
  void enqueue(const Call& call);
  /// Launches one rank alone.
  void enqueue_rank(const Call& call, int rank);
  /// In the rank's stream: peers store only after this rank has entered the call.
  void poison(int rank);
  void collect(const Call& call, int rank);

  /// Waits until all streams are idle.
  void wait() const;
  /// wait(), then every rank's check().
  void finish() const;
  void expect_untouched_guards();

 private:
  void allocate_guard(SymmetricBuffer& guard);

  std::vector<int> devices_;
  bool virtual_ = false;
  PeerAccessHeap heap_;
  SymmetricBuffer before_{};
  SymmetricBuffer behind_{};
  SymmetricBuffer result_{};
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<AllToAll>> handles_;
};

/// Runs a call with new operands and verifies its results.
void expect_right_call(const Case& which, Ranks& ranks, std::uint64_t seed);

}  // namespace xstage::all_to_all_test
