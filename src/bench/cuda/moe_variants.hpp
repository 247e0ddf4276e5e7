#pragma once
// The variants of a mixture-of-experts layer as something that can be timed.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cuda/moe_operands.hpp"
#include "bench/cuda/moe_parts.hpp"
#include "bench/cuda/timing.hpp"
#include "xstage/moe.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::bench {

/// What all variants of a cell use. Outlives them.
struct MoeResources {
  const MoeCell& cell;
  const moe::Routing& routing;
  const Ranks& ranks;
  const MoeOperands& operands;
};

class MoeVariants {
 public:
  /// `names` as parse_moe_variants has them.
  MoeVariants(const MoeResources& resources, const std::vector<std::string>& names);

  /// The timed variant; refers to this object.
  [[nodiscard]] Variant variant(const std::string& name);

  /// NaN wherever the layer writes its results, on all ranks.
  void poison_output() const;

 private:
  /// The handles of a layer on all ranks, in a heap of their own.
  struct Layer {
    std::string name;
    std::optional<PeerAccessHeap> heap;
    std::vector<std::unique_ptr<MoeLayer>> of_rank;
  };
  void make_layer(const std::string& name);
  [[nodiscard]] const Layer& layer(const std::string& name) const;
  void make_parts(const std::vector<std::string>& names);
  [[nodiscard]] const MoeParts& parts(const std::string& name) const;
  void enqueue(const std::string& name, int rank, int call, cudaStream_t stream) const;
  void check(const std::string& name) const;

  MoeResources resources_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<MoeParts> parts_;
  std::unique_ptr<MoeParts> parts_with_rows_;  // for `combine_rows`: handles agree on what crosses
};

}  // namespace xstage::bench
