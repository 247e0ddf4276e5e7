#include "ops/moe/test/gpu/activation_device.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/device_memory.hpp"
#include "ops/moe/device/grouped_activation.cuh"

namespace xstage::moe_test {

namespace {

__global__ void activation_kernel(const float* gates, std::int32_t pairs, float up, float weight, float clamp,
                                  float* results) {
  const auto pair = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (pair >= pairs) {
    return;
  }
  const float gate[2] = {gates[2 * pair], gates[2 * pair + 1]};
  const float ups[2] = {up, up};
  float result[2];
  if (clamp > 0) {
    kernels::activate_pair<true>(gate, ups, weight, clamp, result);
  } else {
    kernels::activate_pair<false>(gate, ups, weight, 0, result);
  }
  results[2 * pair] = result[0];
  results[2 * pair + 1] = result[1];
}

}  // namespace

std::vector<float> activate_on_device(const std::vector<float>& gates, float up, float weight, float clamp) {
  const std::size_t bytes = gates.size() * sizeof(float);
  const cuda::DeviceBuffer gates_there(0, bytes, "gates");
  const cuda::DeviceBuffer results_there(0, bytes, "results of SwiGLU");
  cuda::check(cudaMemcpy(gates_there.as<void>(), gates.data(), bytes, cudaMemcpyHostToDevice), "copying gates");
  const auto pairs = static_cast<std::int32_t>(gates.size() / 2);
  activation_kernel<<<static_cast<unsigned>((pairs + 127) / 128), 128>>>(gates_there.as<float>(), pairs, up, weight,
                                                                         clamp, results_there.as<float>());
  cuda::check(cudaGetLastError(), "launching SwiGLU");
  return results_there.read<float>(gates.size());
}

}  // namespace xstage::moe_test
