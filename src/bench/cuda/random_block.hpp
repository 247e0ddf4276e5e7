#pragma once
// Random operands, so many of them that L2 does not hold what the call before read, and results that are poison.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/cuda/device_memory.hpp"

namespace xstage::bench {

/// A block of random numbers on each GPU, from which buffers are filled. Its length is a prime, so that no two rows of
/// a matrix that is longer than the block are equal.
class RandomBlock {
 public:
  RandomBlock(const std::vector<int>& devices, double deviation, std::uint64_t seed);
  [[nodiscard]] double deviation() const { return deviation_; }

  /// Fills `elements` bf16 from a place in the block that depends on `stream_number`.
  void fill(int device, void* destination, std::size_t elements, std::uint64_t stream_number) const;

 private:
  std::vector<int> devices_;
  double deviation_;
  std::vector<cuda::DeviceBuffer> blocks_;
};

/// A block for weights, whose deviation follows the depth of their products; made anew only when that changes.
class WeightBlock {
 public:
  explicit WeightBlock(const std::vector<int>& devices) : devices_(devices) {}
  /// Standard deviation 1 / sqrt(depth). Valid until the next call.
  const RandomBlock& for_depth(std::int64_t depth);

 private:
  std::vector<int> devices_;
  std::optional<RandomBlock> block_;
};

/// Sets of operands, each of so many bytes, that calls must take in turn to find none of them in L2.
[[nodiscard]] int sets_beyond_l2(std::size_t bytes_of_set);
/// How that treats L2, for the result file.
[[nodiscard]] std::string l2_policy_text(int sets, std::size_t bytes_of_set);

/// Every byte 0xFF: NaN as bf16.
void poison(int device, void* address, std::size_t bytes);

}  // namespace xstage::bench
