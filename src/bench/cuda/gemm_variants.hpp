#pragma once
// The variants of a cell as something that can be timed. Each owns its handles and heap; the operands are shared.

#include <memory>
#include <optional>
#include <vector>

#include "bench/cuda/cublas.hpp"
#include "bench/cuda/operands.hpp"
#include "bench/cuda/record_spans.hpp"
#include "bench/cuda/timing.hpp"
#include "bench/plan_options.hpp"
#include "xstage/gemm.hpp"

namespace xstage::bench {

/// What all variants of a cell use. Outlives them.
struct CellResources {
  const GemmCell& cell;
  const Ranks& ranks;
  const Operands& operands;
  const RandomBlock& random;
  const std::optional<GemmPlanOverrides>& plan;  // of the operation among ranks
};

/// Handles of one variant, one a rank, and where they live.
class GemmHandles {
 public:
  GemmHandles() = default;
  GemmHandles(const GemmHandles&) = delete;
  GemmHandles& operator=(const GemmHandles&) = delete;
  virtual ~GemmHandles() = default;

  /// The timed variant; refers to this object.
  [[nodiscard]] Variant variant(const char* name, const CellResources& resources);
  [[nodiscard]] Gemm& of_rank(int rank) { return *launched_[static_cast<std::size_t>(rank)]; }
  /// For calls that are recorded. Refers to this object; only `fused` has a heap that all ranks share.
  [[nodiscard]] Recordable recordable(const CellResources& resources);

 protected:
  std::vector<PeerAccessHeap> heaps_;
  std::vector<std::unique_ptr<Gemm>> handles_;
  std::vector<Gemm*> launched_;  // [rank], some of handles_
};

[[nodiscard]] Variant cublas_variant(const std::vector<CublasHandle>& handles, const CellResources& resources);

/// Our GEMM of each rank's share: no communication.
[[nodiscard]] std::unique_ptr<GemmHandles> make_alone(const CellResources& resources);
[[nodiscard]] std::unique_ptr<GemmHandles> make_fused(const CellResources& resources);
/// Each rank with copies of its peers' heaps on its own GPU, and with all of their flags up.
[[nodiscard]] std::unique_ptr<GemmHandles> make_local_twin(const CellResources& resources);

}  // namespace xstage::bench
