#pragma once
// The variants of a cell, ready to be timed: their handles, their heaps, and the places of their results.

#include <memory>
#include <optional>
#include <vector>

#include "bench/cuda/record_spans.hpp"
#include "bench/cuda/timing.hpp"
#include "bench/plan_options.hpp"
#include "ops/attention/bench/cuda/operands.hpp"
#include "ops/attention/bench/rows.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/attention.hpp"

namespace xstage::bench {

/// Resources that all variants of a cell use and that must outlive them.
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
  AttentionVariants(const AttentionResources& resources, const std::vector<AttentionVariant>& entries);

  /// The timed variant, with its plans; refers to this object.
  [[nodiscard]] Variant variant(const AttentionVariant& entry);
  /// For calls that are recorded, of a variant that has spans; refers to this object.
  [[nodiscard]] Recordable recordable(const AttentionVariant& entry);
  /// Plan of a variant that computes, as its handles have it.
  [[nodiscard]] const attention::Plan& plan_of(const AttentionVariant& entry) const;

  /// Whether results are with the owners of their rows, [own rows, heads, head_dim], or where they were computed,
  /// [rows, heads of the rank, head_dim].
  [[nodiscard]] static bool at_owners(const AttentionVariant& entry) { return entry.among_ranks; }
  /// Null if there are none on that rank.
  [[nodiscard]] void* result(const AttentionVariant& entry, int rank) const;
  /// NaN wherever the variant has to write, on all ranks.
  void poison_results(const AttentionVariant& entry) const;

 private:
  /// Finds a variant among mutable or constant ones.
  template <typename Variants>
  [[nodiscard]] static auto& attention_of(Variants& variants, const AttentionVariant& entry);
  void launch(const AttentionVariant& entry, int rank, int call, cudaStream_t stream) const;
  void check(const AttentionVariant& entry) const;

  AttentionResources resources_;
  OperationHandles<Attention> local_;
  OperationHandles<Attention> to_owners_;
  OperationHandles<Attention> twin_;
  OperationHandles<AllToAll> exchange_;
};

}  // namespace xstage::bench
