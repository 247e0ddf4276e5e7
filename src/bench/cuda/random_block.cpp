#include "bench/cuda/random_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/normal_pattern.hpp"
#include "bench/random_bits.hpp"

namespace xstage::bench {

namespace {

using cuda::check;
using cuda::CurrentDevice;

constexpr std::size_t element_bytes = 2;
constexpr std::size_t block_elements = 33554393;                 // the largest prime below 2^25: 64 MiB
constexpr std::size_t twice_l2_bytes = std::size_t{120} << 20U;  // of the largest L2 of compute capability 9.0, 60 MiB
constexpr std::size_t most_sets = 8;

}  // namespace

RandomBlock::RandomBlock(const std::vector<int>& devices, double deviation, std::uint64_t seed)
    : devices_(devices), deviation_(deviation) {
  const std::vector<std::uint16_t> pattern = normal_pattern(block_elements, deviation, seed);
  for (const int device : devices) {
    const CurrentDevice current(device);
    blocks_.emplace_back(device, block_elements * element_bytes, "random numbers");
    check(cudaMemcpy(blocks_.back().as<void>(), pattern.data(), block_elements * element_bytes, cudaMemcpyHostToDevice),
          "copying random numbers to a GPU");
  }
}

void RandomBlock::fill(int device, void* destination, std::size_t elements, std::uint64_t stream_number) const {
  const CurrentDevice current(device);
  const auto index = std::find(devices_.begin(), devices_.end(), device) - devices_.begin();
  const char* block = blocks_.at(static_cast<std::size_t>(index)).as<char>();
  std::size_t from = random_bits(0, stream_number) % block_elements;
  std::size_t done = 0;
  while (done < elements) {
    const std::size_t count = std::min(elements - done, block_elements - from);
    check(cudaMemcpyAsync(static_cast<char*>(destination) + done * element_bytes, block + from * element_bytes,
                          count * element_bytes, cudaMemcpyDeviceToDevice, nullptr),
          "filling an operand");
    done += count;
    from = 0;
  }
  check(cudaDeviceSynchronize(), "filling an operand");
}

const RandomBlock& WeightBlock::for_depth(std::int64_t depth) {
  const double deviation = 1 / std::sqrt(static_cast<double>(depth));
  if (!block_ || block_->deviation() != deviation) {
    block_.reset();  // before the new one takes memory
    block_.emplace(devices_, deviation, 2);
  }
  return *block_;
}

int sets_beyond_l2(std::size_t bytes_of_set) {
  return static_cast<int>(std::clamp((twice_l2_bytes + bytes_of_set - 1) / bytes_of_set, std::size_t{1}, most_sets));
}

std::string l2_policy_text(int sets, std::size_t bytes_of_set) {
  if (sets == 1) {
    return fmt::format("inputs of {} MiB, more than L2 holds", bytes_of_set >> 20U);
  }
  return fmt::format("inputs rotate over {} sets of {:.1f} MiB", sets, static_cast<double>(bytes_of_set) / 1048576.0);
}

void poison(int device, void* address, std::size_t bytes) {
  const CurrentDevice current(device);
  check(cudaMemset(address, 0xFF, bytes), "filling a result with NaN");
  check(cudaDeviceSynchronize(), "filling a result with NaN");
}

}  // namespace xstage::bench
