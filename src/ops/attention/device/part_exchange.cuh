#pragma once
// Exchange of the parts of a tile that several CTAs share. Each CTA writes the output and sums of its keys in fp32, and
// the last one adds up all parts. No CTA waits for another. Parts are added in their order, so that every run gives the
// same result.

#include "ops/attention/device/shared.cuh"
#include "ops/attention/device/softmax.cuh"

namespace xstage::kernels {

/// The exchange for the rows of one warpgroup.
template <int HeadDim>
class PartExchange {
 public:
  static constexpr std::size_t output_values = HeadDim / 2;
  using Output = float (&)[output_values];
  using Softmax = OnlineSoftmax<attention_block_keys / 2>;

  __device__ PartExchange(const AttentionSplit& split, int warpgroup) : split_(split), warpgroup_(warpgroup) {}

  /// Writes the results of this part of a split tile. In the CTA that finishes last it then combines all parts and
  /// returns true.
  __device__ bool merge(Output output, Softmax& softmax, const schedule::AttentionShare& work) const {
    float4* found = found_by(work.first_slot + work.part);
#pragma unroll
    for (std::size_t index = 0; index < output_values / 4; ++index) {
      found[index * 128] = {output[4 * index], output[4 * index + 1], output[4 * index + 2], output[4 * index + 3]};
    }
    found[output_values / 4 * 128] = softmax.state();
    if (count_part(work) != static_cast<std::uint32_t>(work.parts)) {
      return false;
    }
    add_up(output, softmax, work);
    return true;
  }

 private:
  using Shared = AttentionShared<HeadDim>;

  __device__ static bool leader() { return threadIdx.x % 128U == 0U; }

  [[nodiscard]] __device__ float4* found_by(std::int32_t slot) const {
    constexpr std::size_t values = output_values / 4 + 1;
    return reinterpret_cast<float4*>(split_.found) +
           static_cast<std::ptrdiff_t>(slot * attend_warpgroups + warpgroup_) * (values * 128) + threadIdx.x % 128U;
  }

  /// Number of finished parts of the tile, this one included; the same in all threads.
  __device__ std::uint32_t count_part(const schedule::AttentionShare& work) const {
    __threadfence();
    sync_warpgroup(warpgroup_);
    std::uint32_t& finished = Shared::barriers().finished_parts[warpgroup_];
    if (leader()) {
      std::uint32_t* counter = split_.counters + work.counter * attend_warpgroups + warpgroup_;
      finished = atomicAdd(counter, 1U) + 1U;
      if (finished == static_cast<std::uint32_t>(work.parts)) {
        atomicExch(counter, 0U);  // reset for the next launch
      }
      __threadfence();
    }
    sync_warpgroup(warpgroup_);
    return finished;
  }

  /// Adds up all parts, relative to the largest of their maxima, in their order, whichever CTA does it.
  __device__ void add_up(Output output, Softmax& softmax, const schedule::AttentionShare& work) const {
    constexpr std::size_t state_at = output_values / 4 * 128;
    float4 total = {-INFINITY, -INFINITY, 0.0F, 0.0F};
#pragma unroll 4
    for (std::int32_t part = 0; part < work.parts; ++part) {
      const float4 state = __ldcg(found_by(work.first_slot + part) + state_at);
      total.x = fmaxf(total.x, state.x);
      total.y = fmaxf(total.y, state.y);
    }
#pragma unroll
    for (std::size_t index = 0; index < output_values; ++index) {
      output[index] = 0.0F;
    }
#pragma unroll 1
    for (std::int32_t part = 0; part < work.parts; ++part) {
      const float4* found = found_by(work.first_slot + part);
      const float4 state = __ldcg(found + state_at);
      const float factor[2] = {softmax.correction_of(state.x, total.x), softmax.correction_of(state.y, total.y)};
      total.z += state.z * factor[0];
      total.w += state.w * factor[1];
#pragma unroll
      for (std::size_t index = 0; index < output_values / 4; ++index) {
        const float4 values = __ldcg(found + index * 128);
        output[4 * index] += values.x * factor[0];
        output[4 * index + 1] += values.y * factor[0];
        output[4 * index + 2] += values.z * factor[1];
        output[4 * index + 3] += values.w * factor[1];
      }
    }
    softmax.set_state(total);
  }

  const AttentionSplit& split_;
  const int warpgroup_;
};

}  // namespace xstage::kernels
