// The instantiations of the attention kernel. There are few of them on purpose: everything else is decided at run time
// (design rule 10).

#include "device/launch.hpp"
#include "ops/attention/device/attention.hpp"
#include "ops/attention/device/attention_kernel.cuh"

namespace xstage::kernels {

namespace {

using Kernel = void (*)(AttentionLaunch);
using VirtualKernel = void (*)(const AttentionLaunch*, std::int32_t);

struct Kernels {
  Kernel kernel;
  VirtualKernel virtual_kernel;
  int shared_bytes;
};

template <int HeadDim, class Element>
Kernels choose(bool instrumented) {
  constexpr int bytes = AttentionLayout<HeadDim>::bytes;
  // Virtual ranks are for tests, so their kernel always contains instruments, which are off unless asked for.
  const VirtualKernel virtual_kernel = attention_virtual_kernel<HeadDim, Element, RecordingProbe>;
  if (instrumented) {
    return {attention_kernel<HeadDim, Element, RecordingProbe>, virtual_kernel, bytes};
  }
  return {attention_kernel<HeadDim, Element, NoProbe>, virtual_kernel, bytes};
}

template <int HeadDim>
Kernels choose(attention::Element element, bool instrumented) {
  return element == attention::Element::bf16 ? choose<HeadDim, cutlass::bfloat16_t>(instrumented)
                                             : choose<HeadDim, cutlass::half_t>(instrumented);
}

Kernels choose(const AttentionLaunchShape& shape) {
  return shape.head_dim == 64 ? choose<64>(shape.element, shape.instrumented)
                              : choose<128>(shape.element, shape.instrumented);
}

LaunchShape launch_shape(const AttentionLaunchShape& shape, int shared_bytes, int ranks, Start start) {
  return {static_cast<unsigned>(shape.blocks * ranks), attention_threads, shared_bytes, SharedMemoryUse::dynamic,
          start};
}

}  // namespace

void load_attention(const AttentionLaunchShape& shape) {
  load_kernel(choose(shape).kernel, SharedMemoryUse::dynamic, "the attention kernel");
}

void launch_attention(const AttentionLaunch& launch, const AttentionLaunchShape& shape, cudaStream_t stream) {
  const Kernels kernels = choose(shape);
  launch_kernel(kernels.kernel, launch_shape(shape, kernels.shared_bytes, 1, Start::overlapping), stream,
                "the attention kernel", launch);
}

void launch_virtual_attention(const AttentionLaunch* launches, int ranks, const AttentionLaunchShape& shape,
                              cudaStream_t stream) {
  const Kernels kernels = choose(shape);
  launch_kernel(kernels.virtual_kernel, launch_shape(shape, kernels.shared_bytes, ranks, Start::together), stream,
                "the attention kernel of virtual ranks", launches, ranks);
}

}  // namespace xstage::kernels
