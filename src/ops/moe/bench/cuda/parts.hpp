#pragma once
// The kernels of the unfused layer, each launched alone, with the plans and buffers that the layer gives them.

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <vector>

#include "bench/cuda/timing.hpp"
#include "device/device_memory.hpp"
#include "ops/moe/bench/cuda/operands.hpp"
#include "ops/moe/bench/rows.hpp"
#include "ops/moe/device/layer_exchange.hpp"
#include "ops/moe/device/layer_linears.hpp"
#include "xstage/moe.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::bench {

/// The kernels on all ranks, in a common heap. The constructor has run all kernels but combine in order, so that each
/// kernel finds the same inputs as in a layer.
class MoeParts {
 public:
  /// Makes the parts for the combine of `entry`. `twins` says whether local twins will be asked for.
  MoeParts(const Ranks& ranks, const MoeCell& cell, const MoeOperands& operands, const MoeVariant& entry, bool twins);

  /// Enqueues any variant but a layer, with the rank's device current.
  void enqueue(const MoeVariant& part, int rank, int set, cudaStream_t stream) const;
  void check() const;
  [[nodiscard]] const moe::Plan& plan() const { return plan_; }

 private:
  struct Part {
    kernels::LayerExchange exchange;
    kernels::LayerLinears linears;
    cuda::DeviceBuffer local_tokens, local_slots;  // memory into which local twins store what is for peers
    Part(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan);
  };
  void enqueue_dispatch(const Part& part, int rank, bool local, cudaStream_t stream) const;
  void enqueue_combine(const Part& part, int rank, bool local, cudaStream_t stream) const;

  const MoeOperands& operands_;
  moe::Plan plan_;
  std::optional<PeerAccessHeap> heap_;
  std::vector<std::unique_ptr<Part>> of_rank_;
};

}  // namespace xstage::bench
