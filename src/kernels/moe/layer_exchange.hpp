#pragma once
// What dispatch and combine of one rank's layer keep between launches: signals and buffers in the symmetric heap,
// buffers of the rank alone, reports, and the parameters of both launches.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/collective/handle.hpp"
#include "kernels/moe/moe_parameters.hpp"
#include "node/cuda/device_memory.hpp"
#include "xstage/moe.hpp"

namespace xstage::kernels {

/// What a complete report means, for users. `experts`: of all ranks.
[[nodiscard]] std::string describe(const RoutingReport& report, int experts);

class LayerExchange {
 public:
  /// Collective. Neither problem nor plan breaks a rule, and the plan is complete.
  LayerExchange(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan, std::chrono::microseconds time_out);

  /// Before each launch, of so many CTAs. Throws what check() throws.
  void prepare(const moe::Operands& operands, int blocks);
  [[nodiscard]] const DispatchLaunch& dispatch() const { return dispatch_; }
  [[nodiscard]] const CombineLaunch& combine() const { return combine_; }
  /// Where the linear layers between the two find and leave rows.
  [[nodiscard]] const MoeRows& rows() const { return dispatch_.exchange.rows; }
  [[nodiscard]] std::int64_t most_rows() const { return most_rows_; }

  /// Throws DeviceError if a wait has expired, InputError if dispatch has met a choice that breaks a rule.
  void check() const;
  void synchronise() const { call_.synchronise(); }
  /// The ranks have come to rest.
  void restore();

  [[nodiscard]] HeapRank& heap() const { return call_.heap(); }

 private:
  struct FreeReport {
    void operator()(RoutingReport* report) const;
  };
  void take_own_buffers(int most_blocks);
  /// On the current device.
  void clear_totals();
  void fill_exchange(MoeExchange& exchange) const;
  void fill_launches(const moe::Plan& plan);

  moe::Problem problem_;
  std::int64_t most_rows_;
  CollectiveHandle call_;
  SymmetricBuffer tokens_{}, counts_{}, routes_{}, slots_{};
  cuda::DeviceBuffer activations_, results_, weights_, origins_;
  cuda::DeviceBuffer expert_counts_, first_block_, block_counts_, totals_, tokens_of_;
  std::unique_ptr<RoutingReport, FreeReport> report_;
  DispatchLaunch dispatch_{};
  CombineLaunch combine_{};
};

}  // namespace xstage::kernels
