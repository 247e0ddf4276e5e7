#pragma once
// Random integers for the tests of MoE schedules, the same with every standard library.

#include <cstdint>
#include <random>

namespace xstage {

class MoeRandom {
 public:
  explicit MoeRandom(std::uint32_t seed) : bits_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }
  std::mt19937& bits() { return bits_; }

 private:
  std::mt19937 bits_;
};

}  // namespace xstage
