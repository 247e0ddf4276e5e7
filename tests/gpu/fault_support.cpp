#include "gpu/fault_support.hpp"

#include <cuda_runtime_api.h>

#include <thread>

namespace xstage::gpu_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

void expect_end_in_time(std::chrono::microseconds time_out, const std::function<void()>& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  EXPECT_LT(std::chrono::steady_clock::now() - start, time_out + std::chrono::seconds(1));
}

void expect_names_the_missing_peer(const std::string& said, int call, const std::string& first_wait) {
  EXPECT_THAT(said, ContainsRegex("rank 0 waited [0-9]+ us for rank 1 in call " + std::to_string(call) +
                                  " and gave up: " + first_wait));
  EXPECT_THAT(said, ContainsRegex("counter [0-9]+ is [0-9]+, expected [0-9]+"));
  EXPECT_THAT(said, HasSubstr("reset()"));
}

void enter_first_call(std::uint32_t* entered) {
  const std::uint32_t first_call = 1;
  ASSERT_EQ(cudaMemcpy(entered, &first_call, sizeof(first_call), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

void enqueue_late(int late, std::chrono::milliseconds pause, const std::function<void(int rank)>& enqueue) {
  enqueue(1 - late);
  std::this_thread::sleep_for(pause);
  enqueue(late);
}

void expect_too_small(std::size_t bytes, const std::string& buffer, const std::function<void(HeapRank&)>& make) {
  auto heap = PeerAccessHeap::create({0, 0}, bytes);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(complaint<InputError>([&] { make(heap.rank(rank)); }),
                AllOf(HasSubstr("rank " + std::to_string(rank) + " allocates '" + buffer),
                      HasSubstr("of the heap's " + std::to_string(bytes) + " bytes are left")));
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NO_THROW(static_cast<void>(heap.rank(rank).allocate("all of it", bytes)));
  }
}

}  // namespace xstage::gpu_test
