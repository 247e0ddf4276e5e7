#pragma once
// What the GPU tests of Gemm share: random cases, the operands and results of a call, the ranks of one operation in
// this process.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "gpu/rank_support.hpp"
#include "ops/gemm/bench/sampled_result.hpp"
#include "xstage/gemm.hpp"

namespace xstage::gemm_test {

using gpu_test::Random;
using gpu_test::two_gpus;
using gpu_test::unavailable_reason;
using gpu_test::virtual_ranks;

/// A whole problem with a plan for it.
struct Case {
  bench::GemmCell cell;
  Plan plan;
  [[nodiscard]] std::string text() const;
};

/// Fills in what the plan leaves open, for GPU 0.
[[nodiscard]] Case make_case(const gemm::Problem& problem, int ranks, const Plan& plan);

/// An all-reduce in one shot has no tiles of 256 columns.
[[nodiscard]] bool plan_allowed(const gemm::Problem& problem, const Plan& plan);
/// The plan of the rule, but for the algorithm of an all-reduce.
[[nodiscard]] Case make_case(const gemm::Problem& problem, int ranks,
                             AllReduceAlgorithm all_reduce = AllReduceAlgorithm::two_shot);

[[nodiscard]] gemm::Problem make_problem(gemm::Operation operation, std::int64_t m, std::int64_t n, std::int64_t k);
/// Q, K and V with so many heads each, norm and rotary embedding on Q and K.
[[nodiscard]] gemm::Problem make_heads(std::int64_t m, int heads, int head_dim, std::int64_t k);

/// An operation as the tests distinguish them.
struct FusedOperation {
  gemm::Operation operation = gemm::Operation::gemm;
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::two_shot;
  /// An all-reduce in one shot.
  [[nodiscard]] bool exchanges() const {
    return operation == gemm::Operation::all_reduce && all_reduce == AllReduceAlgorithm::one_shot;
  }
  [[nodiscard]] std::string name() const;
};
/// GoogleTest prints parameters with it.
inline std::ostream& operator<<(std::ostream& out, const FusedOperation& fused) { return out << fused.name(); }
inline constexpr FusedOperation fused_operations[] = {{gemm::Operation::reduce_scatter},
                                                      {gemm::Operation::all_gather},
                                                      {gemm::Operation::all_reduce, AllReduceAlgorithm::two_shot},
                                                      {gemm::Operation::all_reduce, AllReduceAlgorithm::one_shot},
                                                      {gemm::Operation::all_to_all}};

/// A problem of this operation; of an all-to-all with so many heads in each of three parts.
[[nodiscard]] gemm::Problem problem_of(const FusedOperation& fused, std::int64_t m, std::int64_t n, std::int64_t k,
                                       int heads, int head_dim = 128);

/// A small problem and plan: tails in every extent, sometimes ranks without rows.
[[nodiscard]] Case random_case(const FusedOperation& fused, int ranks, Random& random);

/// One rank's operands as they were rounded to bf16.
struct HostOperands {
  std::vector<float> a, b, bias, norm_weight, rotary;
};

/// Shapes of what a rank has afterwards, by part.
[[nodiscard]] std::vector<bench::ResultShape> result_shapes(const bench::GemmCell& cell, int rank);

/// Operands and results of one call on all ranks.
class Call {
 public:
  /// Fresh random operands, results full of NaN.
  Call(const Case& which, const std::vector<int>& devices, std::uint64_t seed);

  /// Other operands at the same addresses. The GPUs must be idle.
  void refill(std::uint64_t seed);
  /// These bits in place of an element of a rank's A on its GPU; host() does not know of it. The GPUs must be idle.
  void overwrite_a(int rank, std::size_t index, std::uint16_t bits) const;
  /// NaN in all results. The GPUs must be idle.
  void poison() const;

  [[nodiscard]] gemm::Operands operands(int rank) const;
  [[nodiscard]] const HostOperands& host(int rank) const { return host_[static_cast<std::size_t>(rank)]; }
  /// Where the result of that rank and part ends up: the operation's own output or a copy from the symmetric heap.
  [[nodiscard]] std::uint16_t* result(int rank, std::size_t part) const;
  [[nodiscard]] std::vector<std::uint16_t> read_result(int rank, std::size_t part) const;
  /// Whether the rows around the results are still as poison() left them.
  [[nodiscard]] bool guards_are_untouched() const;

 private:
  struct Place {
    int device = 0;
    bench::ResultShape shape;
    cuda::DeviceBuffer buffer;  // guard rows, the result, guard rows
  };
  struct DeviceOperands {
    int device = 0;
    cuda::DeviceBuffer a, b, bias, norm_weight, rotary;
  };

  bench::GemmCell cell_;
  std::vector<HostOperands> host_;
  std::vector<DeviceOperands> operands_;
  std::vector<std::vector<Place>> results_;  // [rank][part]
};

/// The handles of all ranks with their heap and streams. Ranks that share a GPU are virtual ones.
class Ranks {
 public:
  Ranks(const Case& which, const std::vector<int>& devices,
        std::chrono::microseconds time_out = std::chrono::seconds(5));

  [[nodiscard]] Gemm& operator[](int rank) { return *handles_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  [[nodiscard]] cudaStream_t stream(int rank) const;
  [[nodiscard]] PeerAccessHeap& heap() { return heap_; }
  [[nodiscard]] const SymmetricBuffer& signals() const { return signals_; }
  [[nodiscard]] std::vector<Gemm*> handles();

  /// Enqueues a call on all ranks, and with it the copy of results that lie in the heap. Does not wait, except for
  /// virtual ranks.
  void enqueue(const Call& call);
  /// Launches one rank alone.
  void enqueue_rank(const Call& call, int rank);
  /// The launch alone: results in the heap stay there.
  void launch_rank(const Call& call, int rank);
  /// Copies results of a rank that lie in the heap, in its stream.
  void collect(const Call& call, int rank);

  /// Waits until all streams are idle.
  void wait() const;
  /// wait(), then every rank's check().
  void finish();
  /// Whether the heap before and behind what the operation takes is untouched.
  [[nodiscard]] bool guards_are_untouched();

 private:
  void poison_heap_results(int rank);

  Case case_;
  std::vector<int> devices_;
  bool virtual_ = false;
  PeerAccessHeap heap_;
  SymmetricBuffer before_{};
  SymmetricBuffer signals_{};
  SymmetricBuffer behind_{};
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<Gemm>> handles_;
};

}  // namespace xstage::gemm_test
