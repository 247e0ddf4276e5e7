#pragma once
// What the tests of dispatch and combine share: the ranks with their buffers, and calls whose correct results the host
// knows.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "fabric/handle.hpp"
#include "gpu/rank_support.hpp"
#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/routing_counts.hpp"
#include "ops/moe/device/launches.hpp"
#include "ops/moe/exchange_plan.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::moe_test {

using gpu_test::Random;
using gpu_test::virtual_ranks;

using Elements = std::vector<std::uint16_t>;

/// The same on every rank.
struct Case {
  int ranks = 1;
  std::int64_t hidden = 0;
  int experts_per_rank = 0;
  int top_k = 0;
  std::int64_t most_tokens = 0;
  kernels::DispatchTuning dispatch;
  kernels::CombineTuning combine;
  bool partial_sums = false;
  bool combine_enters = false;
  bool combine_overlaps = true;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::size_t row_elements() const { return static_cast<std::size_t>(hidden); }
  [[nodiscard]] std::size_t row_bytes() const { return row_elements() * 2; }
  [[nodiscard]] std::size_t most_rows() const;
  [[nodiscard]] std::size_t most_choices() const {
    return static_cast<std::size_t>(most_tokens) * static_cast<std::size_t>(top_k);
  }
};

/// Odd extents and plans.
[[nodiscard]] Case random_case(int ranks, Random& random);
/// Any skew, any numbers of tokens, 0 included, some tokens and choices masked.
[[nodiscard]] moe::Routing random_routing(const Case& which, Random& random);

/// One rank's heap buffers, its own buffers and its launches.
class ExchangeRank {
 public:
  ExchangeRank(HeapRank& heap, const Case& which, int blocks, std::chrono::microseconds time_out);

  [[nodiscard]] static std::size_t heap_bytes(const Case& which, int blocks);

  /// Operands of the next launches. `results`: [most_rows, hidden].
  void set_operands(std::int64_t tokens, const void* tokens_in, const std::int32_t* experts, const float* weights,
                    void* results, void* output);
  /// Sets the delays of later launches.
  void set_delays(const kernels::MoeDelays& delays) {
    dispatch_.delays = delays;
    combine_.delays = delays;
  }
  [[nodiscard]] const kernels::DispatchLaunch& dispatch() const { return dispatch_; }
  [[nodiscard]] const kernels::CombineLaunch& combine() const { return combine_; }

  void enqueue_dispatch(cudaStream_t stream);
  void enqueue_combine(cudaStream_t stream);
  /// Throws DeviceError if a wait has expired.
  void check() const { call_.check(); }
  [[nodiscard]] const kernels::RoutingReport& report() const { return *report_; }
  void clear_report() { *report_ = {}; }
  /// Poisons everything that a call writes, except what later calls rely on, in the rank's stream.
  void poison(cudaStream_t stream) const;
  /// Restores the rank after a call that gave up, when all ranks are idle.
  void restore();

  [[nodiscard]] HeapRank& heap() const { return call_.heap(); }
  [[nodiscard]] int blocks() const { return blocks_; }
  void prepare() { call_.prepare(blocks_); }

 private:
  struct Free {
    void operator()(kernels::RoutingReport* report) const { static_cast<void>(cudaFreeHost(report)); }
  };
  void fill_exchange(kernels::MoeExchange& exchange);

  Case case_;
  int blocks_;
  kernels::CollectiveHandle call_;
  SymmetricBuffer tokens_{}, counts_{}, routes_{}, slots_{};
  cuda::DeviceBuffer expert_counts_, first_block_, weights_, origins_, block_counts_, totals_, tokens_of_;
  std::unique_ptr<kernels::RoutingReport, Free> report_;
  kernels::DispatchLaunch dispatch_{};
  kernels::CombineLaunch combine_{};
};

/// The ranks of one exchange in this process. Ranks that share a GPU are virtual ones.
class ExchangeRanks {
 public:
  ExchangeRanks(const Case& which, const std::vector<int>& devices,
                std::chrono::microseconds time_out = std::chrono::seconds(5));

  [[nodiscard]] ExchangeRank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  [[nodiscard]] bool are_virtual() const { return virtual_; }
  [[nodiscard]] cudaStream_t stream(int rank) const {
    return streams_[virtual_ ? 0 : static_cast<std::size_t>(rank)]->get();
  }

  /// Enqueues dispatch on all ranks, with each rank's operands. Does not wait, except for virtual ranks.
  void dispatch();
  void combine();
  /// Waits until all ranks are idle; then throws if one of them has given up.
  void finish() const;
  void wait() const;

 private:
  template <class Launch>
  const Launch* upload(const std::vector<Launch>& launches);

  std::vector<int> devices_;
  bool virtual_ = false;
  PeerAccessHeap heap_;
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<ExchangeRank>> ranks_;
  cuda::DeviceBuffer launches_;
};

/// Operands of one dispatch and the combine after it on all ranks, and copies of what they left.
class Call {
 public:
  Call(const Case& which, const std::vector<int>& devices, const moe::Routing& routing, std::uint64_t seed);

  /// Enqueues poison, dispatch, copies and combine after each other on all ranks.
  void enqueue(ExchangeRanks& ranks);
  /// The two halves, for graphs.
  void set_operands(ExchangeRanks& ranks) const;
  void collect(ExchangeRanks& ranks, int rank) const;
  /// Expects every row, weight, origin, count and result on every rank, to the bit, and unchanged padding.
  void expect_right() const;
  /// Changes one choice as the device sees it; the routing that results are compared with is `routing`.
  void overwrite(int rank, std::size_t choice, std::int32_t expert, float weight, const moe::Routing& routing);

 private:
  struct Rank {
    Elements tokens;
    cuda::DeviceBuffer tokens_in, experts, weights, results, output;
    cuda::DeviceBuffer rows, row_weights, origins, counts, first_block;  // copies
  };
  void fill_results();
  void expect_right_rows(int rank) const;
  void expect_right_output(int rank) const;
  [[nodiscard]] Elements expected_sum(int rank, std::int64_t token) const;
  [[nodiscard]] std::uint16_t result_element(const moe::Choice& choice, std::size_t column) const;

  Case case_;
  std::vector<int> devices_;
  moe::Routing routing_;
  std::uint64_t seed_;
  std::vector<Rank> ranks_;
};

}  // namespace xstage::moe_test
