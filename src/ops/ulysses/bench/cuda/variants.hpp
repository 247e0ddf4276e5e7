#pragma once
// The variants of a layer, ready to be timed: their handles, their heaps, and the places of their results.

#include <memory>
#include <optional>
#include <vector>

#include "bench/cuda/timing.hpp"
#include "ops/attention/bench/cuda/variants.hpp"
#include "ops/ulysses/bench/cuda/operands.hpp"
#include "ops/ulysses/bench/rows.hpp"
#include "xstage/attention.hpp"
#include "xstage/gemm.hpp"

namespace xstage::bench {

/// Resources that all variants of a cell use and that must outlive them.
struct UlyssesResources {
  const UlyssesCell& cell;
  const Ranks& ranks;
  const UlyssesOperands& operands;
};

/// Projection and attention with communication, one handle of each for each rank, in a common heap. `fused` and `flags`
/// are launches of the same handles and differ only in their waits.
struct SharedLayer {
  std::optional<PeerAccessHeap> heap;
  std::vector<std::unique_ptr<Gemm>> projection;
  std::vector<std::unique_ptr<Attention>> attention;
};

class UlyssesVariants {
 public:
  UlyssesVariants(const UlyssesResources& resources, const std::vector<UlyssesVariant>& entries);

  /// The timed variant, with its plans; refers to this object.
  [[nodiscard]] Variant variant(const UlyssesVariant& entry);

  /// One call of the variant `fused` on all ranks, outside any graph; it has ended when this returns.
  void run_once_with_waits(int call) const;

  // The results of the last call of `fused` or `flags`.
  [[nodiscard]] const void* projected(int rank, int part) const;
  /// [own tokens, heads, head_dim].
  [[nodiscard]] const void* attended(int rank) const;
  /// NaN wherever they have to write, on all ranks.
  void poison_results() const;

 private:
  void enqueue(const UlyssesVariant& entry, int rank, int call, cudaStream_t stream) const;
  void enqueue_compute(const UlyssesVariant& entry, int rank, int set, cudaStream_t stream) const;
  void enqueue_among_ranks(bool by_flags, int rank, int set, cudaStream_t stream) const;
  void project_output(const void* attended, int rank, int set, cudaStream_t stream) const;
  void check(bool among_ranks) const;
  [[nodiscard]] Json plans_of(const UlyssesVariant& entry) const;

  UlyssesResources resources_;
  OperationHandles<Gemm> projection_;
  OperationHandles<Attention> attention_;
  OperationHandles<Gemm> output_projection_;  // of all variants: it never communicates
  SharedLayer shared_;
};

}  // namespace xstage::bench
