#pragma once
// What the GPU tests of all operators share: whether this machine can run them, its GPUs as ranks, random numbers.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace xstage::gpu_test {

/// Why a test that needs that many GPUs of compute capability 9.0 cannot run here; empty: it can.
[[nodiscard]] std::string unavailable_reason(int gpus);
[[nodiscard]] inline bool two_gpus() { return unavailable_reason(2).empty(); }

#define SKIP_WITHOUT_HOPPER(gpus)                                                                 \
  if (const std::string reason = ::xstage::gpu_test::unavailable_reason(gpus); !reason.empty()) { \
    GTEST_SKIP() << reason;                                                                       \
  }

/// Numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] int between(int least, int most);
  template <typename Value>
  [[nodiscard]] Value of(std::initializer_list<Value> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// GPU 0 for every rank.
[[nodiscard]] inline std::vector<int> virtual_ranks(int count) {
  return std::vector<int>(static_cast<std::size_t>(count), 0);
}

}  // namespace xstage::gpu_test
