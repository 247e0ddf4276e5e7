#pragma once
// The variants of a cell, ready to be timed. Each owns its handles and its heap; the operands are shared.

#include <memory>
#include <optional>
#include <vector>

#include "bench/cuda/record_spans.hpp"
#include "bench/cuda/timing.hpp"
#include "bench/plan_options.hpp"
#include "ops/gemm/bench/cuda/cublas.hpp"
#include "ops/gemm/bench/cuda/operands.hpp"
#include "ops/gemm/bench/rows.hpp"
#include "xstage/gemm.hpp"

namespace xstage::bench {

/// Resources that all variants of a cell use and that must outlive them.
struct GemmResources {
  const GemmCell& cell;
  const Ranks& ranks;
  const GemmOperands& operands;
  const std::optional<GemmPlanOverrides>& plan;  // for the operation with communication
};

/// Handles of one variant, one a rank, and where they live.
class GemmHandles {
 public:
  /// Handles of a variant that this library computes.
  GemmHandles(const GemmResources& resources, GemmWay way);
  GemmHandles(const GemmHandles&) = delete;
  GemmHandles& operator=(const GemmHandles&) = delete;

  /// The timed variant, with its plan; refers to this object.
  [[nodiscard]] Variant variant(const GemmVariant& entry, const GemmResources& resources);
  [[nodiscard]] Gemm& of_rank(int rank) { return *launched_[static_cast<std::size_t>(rank)]; }
  /// For calls that are recorded. Refers to this object; only `fused` has a heap that all ranks share.
  [[nodiscard]] Recordable recordable(const GemmResources& resources);

 private:
  void make_alone(const GemmResources& resources);
  void make_fused(const GemmResources& resources);
  /// Gives each rank copies of its peers' heaps on its own GPU, with all flags raised.
  void make_local_twin(const GemmResources& resources);

  std::vector<PeerAccessHeap> heaps_;
  std::vector<std::unique_ptr<Gemm>> handles_;
  std::vector<Gemm*> launched_;  // [rank], some of handles_
};

[[nodiscard]] Variant cublas_variant(const std::vector<CublasHandle>& handles, const GemmResources& resources);

}  // namespace xstage::bench
