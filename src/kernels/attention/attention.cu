// The instantiations of the attention kernel, few on purpose: all else is decided at run time (design rule 10).

#include "kernels/attention/attention.hpp"
#include "kernels/attention/attention_kernel.cuh"
#include "node/cuda/device_memory.hpp"

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
  // Virtual ranks are for tests: instruments are always compiled in, and off unless asked for.
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

template <class Function>
void allow_shared_memory(Function kernel, int bytes) {
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
              "asking for the attention kernel's shared memory");
}

template <class Function, class... Arguments>
void enqueue(Function kernel, int shared_bytes, int blocks, bool cooperative, cudaStream_t stream,
             Arguments... arguments) {
  allow_shared_memory(kernel, shared_bytes);
  // Virtual ranks must be resident together; a rank's own kernel may start while the one before it in the stream ends.
  cudaLaunchAttribute attribute = {};
  if (cooperative) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(blocks));
  configuration.blockDim = dim3(attention_threads);
  configuration.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  configuration.stream = stream;
  configuration.attrs = &attribute;
  configuration.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&configuration, kernel, arguments...), "launching the attention kernel");
}

}  // namespace

void load_attention(const AttentionLaunchShape& shape) {
  const Kernels kernels = choose(shape);
  allow_shared_memory(kernels.kernel, kernels.shared_bytes);
}

void launch_attention(const AttentionLaunch& launch, const AttentionLaunchShape& shape, cudaStream_t stream) {
  const Kernels kernels = choose(shape);
  enqueue(kernels.kernel, kernels.shared_bytes, shape.blocks, false, stream, launch);
}

void launch_virtual_attention(const AttentionLaunch* launches, int ranks, const AttentionLaunchShape& shape,
                              cudaStream_t stream) {
  const Kernels kernels = choose(shape);
  enqueue(kernels.virtual_kernel, kernels.shared_bytes, shape.blocks * ranks, true, stream, launches,
          static_cast<std::int32_t>(ranks));
}

}  // namespace xstage::kernels
