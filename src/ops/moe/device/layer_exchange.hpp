#pragma once
// State of dispatch and combine of one rank's layer between launches: signals and buffers in the symmetric heap,
// buffers of the rank alone, reports, and the parameters of both launches.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fabric/handle.hpp"
#include "ops/moe/device/parameters.hpp"
#include "xstage/moe.hpp"

namespace xstage::kernels {

/// Text of a complete report for users. `experts` is the number of experts of all ranks.
[[nodiscard]] std::string describe(const RoutingReport& report, int experts);

class LayerExchange {
 public:
  /// Collective. Problem and plan are valid, and the plan is complete.
  LayerExchange(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan, std::chrono::microseconds time_out);

  /// To be called before each launch of `blocks` CTAs. Throws what check() throws.
  void prepare(const moe::Operands& operands, int blocks);
  [[nodiscard]] const DispatchLaunch& dispatch() const { return dispatch_; }
  [[nodiscard]] const CombineLaunch& combine() const { return combine_; }
  /// Rows that the linear layers between the two read and write.
  [[nodiscard]] const MoeRows& rows() const { return dispatch_.exchange.rows; }
  [[nodiscard]] std::int64_t most_rows() const { return most_rows_; }

  /// Throws DeviceError if a wait has expired, InputError if dispatch has met a choice that breaks a rule.
  void check() const;
  void synchronise() const { call_.synchronise(); }
  /// Restores signals and epochs while all ranks are idle.
  void restore();

  [[nodiscard]] HeapRank& heap() const { return call_.heap(); }
  [[nodiscard]] cuda::HandleMemory& memory() { return call_.memory(); }
  /// Records a launch of `blocks` CTAs.
  void launched(int blocks, CUstream_st* stream) { call_.launched(blocks, stream); }

 private:
  void take_own_buffers(int most_blocks);
  void clear_totals();
  void fill_exchange(MoeExchange& exchange) const;
  void fill_launches(const moe::Plan& plan);

  moe::Problem problem_;
  std::int64_t most_rows_;
  CollectiveHandle call_;
  SymmetricBuffer tokens_{}, counts_{}, routes_{}, slots_{};
  MoeRows rows_{};
  std::int32_t* tokens_of_ = nullptr;
  std::size_t total_words_ = 0;
  RoutingReport* report_ = nullptr;  // in pinned memory
  DispatchLaunch dispatch_{};
  CombineLaunch combine_{};
};

}  // namespace xstage::kernels
