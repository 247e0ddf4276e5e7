#pragma once
// The variants of a mixture-of-experts layer, ready to be timed.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "bench/cuda/timing.hpp"
#include "ops/moe/bench/cuda/operands.hpp"
#include "ops/moe/bench/cuda/parts.hpp"
#include "ops/moe/bench/rows.hpp"
#include "xstage/moe.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::bench {

/// Resources that all variants of a cell use and that must outlive them.
struct MoeResources {
  const MoeCell& cell;
  const moe::Routing& routing;
  const Ranks& ranks;
  const MoeOperands& operands;
};

class MoeVariants {
 public:
  MoeVariants(const MoeResources& resources, const std::vector<MoeVariant>& entries);

  /// The timed variant, with its plan; refers to this object.
  [[nodiscard]] Variant variant(const MoeVariant& entry);

  /// NaN wherever the layer writes its results, on all ranks.
  void poison_output() const;

 private:
  /// The handles of a layer on all ranks, in a heap of their own.
  struct Layer {
    std::optional<PeerAccessHeap> heap;
    std::vector<std::unique_ptr<MoeLayer>> of_rank;
  };
  /// Objects for each way of combining, since all handles of a layer must agree on it.
  struct OfCombine {
    std::unique_ptr<Layer> layer;
    std::unique_ptr<MoeParts> parts;
  };
  [[nodiscard]] std::unique_ptr<Layer> make_layer(const MoeVariant& entry) const;
  void enqueue(const MoeVariant& entry, int rank, int call, cudaStream_t stream) const;
  void check(const MoeVariant& entry) const;

  MoeResources resources_;
  std::map<moe::Combine, OfCombine> of_combine_;
};

}  // namespace xstage::bench
