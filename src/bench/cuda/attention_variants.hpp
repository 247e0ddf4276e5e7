#pragma once
// The variants of a cell as something that can be timed: their handles, their heaps, and where they leave results.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/attention_cells.hpp"
#include "bench/cuda/attention_operands.hpp"
#include "bench/cuda/record_spans.hpp"
#include "bench/cuda/timing.hpp"
#include "bench/plan_options.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/attention.hpp"

namespace xstage::bench {

/// What all variants of a cell use. Outlives them.
struct AttentionResources {
  const AttentionCell& cell;
  const Ranks& ranks;
  const AttentionOperands& operands;
  const std::optional<AttentionPlanOverrides>& plan;
};

/// One operation on all ranks: a handle each, and the heaps where they live.
template <typename Operation>
struct OperationHandles {
  std::vector<PeerAccessHeap> heaps;
  std::vector<std::unique_ptr<Operation>> of_rank;
};

class AttentionVariants {
 public:
  /// `names` as parse_attention_variants has them.
  AttentionVariants(const AttentionResources& resources, const std::vector<std::string>& names);

  /// The timed variant; refers to this object.
  [[nodiscard]] Variant variant(const std::string& name);
  /// For calls that are recorded, of a variant that has spans; refers to this object.
  [[nodiscard]] Recordable recordable(const std::string& name);
  /// Of the attention and of the all-to-all in it, as far as it has them.
  [[nodiscard]] std::optional<attention::Plan> plan_of(const std::string& name) const;
  [[nodiscard]] std::optional<all_to_all::Plan> exchange_plan_of(const std::string& name) const;
  /// How a variant treats L2.
  [[nodiscard]] std::string l2_policy(const std::string& name) const;

  /// Whether --verify knows what a variant must leave behind: an all-to-all of its own moves whatever is there, and a
  /// twin leaves results where nobody wants them.
  [[nodiscard]] static bool has_verdict(const std::string& name) {
    return name != "all_to_all" && name != "local_twin";
  }
  /// Whether results are with the owners of their rows, [own rows, heads, head_dim], or where they were computed,
  /// [rows, heads of the rank, head_dim].
  [[nodiscard]] static bool at_owners(const std::string& name) { return name != "attention"; }
  /// Null if there are none on that rank.
  [[nodiscard]] void* result(const std::string& name, int rank) const;
  /// NaN wherever the variant has to write, on all ranks.
  void poison_results(const std::string& name) const;

 private:
  /// Of variants that may be changed, or of constant ones.
  template <typename Variants>
  [[nodiscard]] static auto& attention_of(Variants& variants, const std::string& name);
  void launch_attention(const std::string& name, int rank, int call, cudaStream_t stream) const;
  void launch_exchange(int rank, cudaStream_t stream) const;

  AttentionResources resources_;
  OperationHandles<Attention> local_;
  OperationHandles<Attention> to_owners_;
  OperationHandles<Attention> twin_;
  OperationHandles<AllToAll> exchange_;
};

}  // namespace xstage::bench
