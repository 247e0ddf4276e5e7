// Stands in for peer_access_heap.cpp in builds without nvcc.

#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage {

PeerAccessHeap PeerAccessHeap::create(const std::vector<int>& /*devices*/, std::size_t /*bytes_per_rank*/) {
  throw DeviceError(
      "this build has no CUDA support, which a peer access heap needs: install the CUDA toolkit (nvcc) "
      "and rebuild");
}

}  // namespace xstage
