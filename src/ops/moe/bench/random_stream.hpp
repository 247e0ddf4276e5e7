#pragma once
// A stream of random integers, the same with every standard library, whose distributions and shuffles differ.

#include <cstdint>
#include <utility>
#include <vector>

#include "bench/random_bits.hpp"

namespace xstage::moe {

class RandomStream {
 public:
  /// Streams with different numbers are independent.
  RandomStream(std::uint64_t seed, std::uint64_t number) : seed_(bench::random_bits(seed, number)) {}

  /// Uniform in [0, limit). limit is at most 2^32.
  std::uint64_t below(std::uint64_t limit) { return ((bench::random_bits(seed_, index_++) >> 32U) * limit) >> 32U; }

  template <typename Value>
  void shuffle(std::vector<Value>& values) {
    for (std::size_t left = values.size(); left > 1; --left) {
      std::swap(values[left - 1], values[below(left)]);
    }
  }

 private:
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

}  // namespace xstage::moe
