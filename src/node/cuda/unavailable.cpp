// Stands in for the CUDA node in builds without nvcc.

#include "xstage/cuda_node.hpp"
#include "xstage/error.hpp"

namespace xstage {

std::string cuda_unavailable_reason() {
  return "this build has no CUDA support: install the CUDA toolkit (nvcc) and rebuild, or use --node simulated:h200x2";
}

NodeDescription describe_cuda_devices() { throw DeviceError(cuda_unavailable_reason()); }

std::string missing_peer_access() { throw DeviceError(cuda_unavailable_reason()); }

std::unique_ptr<Node> make_cuda_node(bool /*single_device*/) { throw DeviceError(cuda_unavailable_reason()); }

std::unique_ptr<Node> make_cuda_node(int /*source*/, int /*destination*/) {
  throw DeviceError(cuda_unavailable_reason());
}

}  // namespace xstage
