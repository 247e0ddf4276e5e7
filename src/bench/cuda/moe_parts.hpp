#pragma once
// The kernels of the unfused layer, each by itself, with the plans and buffers that the layer gives them.

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/cuda/moe_operands.hpp"
#include "bench/cuda/timing.hpp"
#include "kernels/moe/layer_exchange.hpp"
#include "kernels/moe/layer_linears.hpp"
#include "node/cuda/device_memory.hpp"
#include "xstage/moe.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::bench {

/// The rule's plan for a cell, but for what crosses behind Linear-2.
[[nodiscard]] moe::Plan plan_of(const Ranks& ranks, const MoeCell& cell, moe::Combine combine);

/// On all ranks, in a heap that they share. All kernels but combine have run one after the other when this is made:
/// each finds what it finds in a layer.
class MoeParts {
 public:
  /// `combine`: what its combine sends. `twins`: whether local twins can be asked for.
  MoeParts(const Ranks& ranks, const MoeCell& cell, const MoeOperands& operands, moe::Combine combine, bool twins);

  /// Any variant that is no layer, on the rank's device as the current one.
  void enqueue(std::string_view part, int rank, int set, cudaStream_t stream) const;
  void check() const;

 private:
  struct Part {
    kernels::LayerExchange exchange;
    kernels::LayerLinears linears;
    cuda::DeviceBuffer local_tokens, local_slots;  // where local twins leave what is for peers
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
