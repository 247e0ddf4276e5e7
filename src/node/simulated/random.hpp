#pragma once
/// Random draws that are the same on every platform: the standard fixes the engine, but not its distributions.

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "node/simulated/time.hpp"

namespace xstage::simulated {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform over 0 ... limit - 1. The modulo's bias is below 2^-40 for the limits used here.
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }

  /// A time, uniform over 0 ... longest.
  Picoseconds time_up_to(Picoseconds longest) {
    return static_cast<Picoseconds>(below(static_cast<std::uint64_t>(longest) + 1));
  }

  /// 0 ... count - 1 in random order (Fisher-Yates).
  std::vector<int> permutation(int count) {
    std::vector<int> order(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      order[static_cast<std::size_t>(i)] = i;
    }
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[below(i)]);
    }
    return order;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace xstage::simulated
