#include "bench/cuda/operand_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/cuda/random_normal.hpp"

namespace xstage::bench {

namespace {

using cuda::check;
using cuda::CurrentDevice;

constexpr std::size_t twice_l2_bytes = std::size_t{120} << 20U;  // of the largest L2 of compute capability 9.0, 60 MiB
constexpr std::size_t most_sets = 8;

}  // namespace

void fill_normal(int device, void* destination, std::size_t elements, double deviation, std::uint64_t stream_number) {
  const CurrentDevice current(device);
  if (elements > 0) {
    check(launch_random_normal(destination, elements, static_cast<float>(deviation), stream_number),
          "filling an operand with random numbers");
  }
  check(cudaDeviceSynchronize(), "filling an operand with random numbers");
}

double weight_deviation(std::int64_t depth) { return 1 / std::sqrt(static_cast<double>(depth)); }

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

int multiprocessors_of(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for multiprocessors");
  return count;
}

}  // namespace xstage::bench
