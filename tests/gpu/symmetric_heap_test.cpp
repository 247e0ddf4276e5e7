// The symmetric heap on real GPUs: memory, zeros, peer mapping. Its bookkeeping is tested without GPUs in tests/unit.

#include "xstage/symmetric_heap.hpp"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/device_memory.hpp"
#include "node/cuda/discovery.hpp"
#include "xstage/error.hpp"

namespace xstage::symmetric_heap_test {
namespace {

using testing::HasSubstr;

constexpr std::size_t heap_bytes = std::size_t{1} << 20U;

#define SKIP_WITHOUT_GPUS(count)                                            \
  try {                                                                     \
    if (cuda::device_count() < (count)) {                                   \
      GTEST_SKIP() << "fewer than " << (count) << " GPUs are visible";      \
    }                                                                       \
    if ((count) > 1 && !(cuda::can_reach(0, 1) && cuda::can_reach(1, 0))) { \
      GTEST_SKIP() << "GPUs 0 and 1 cannot reach each other's memory";      \
    }                                                                       \
  } catch (const DeviceError& error) {                                      \
    GTEST_SKIP() << error.what();                                           \
  }

template <typename Error, typename Call>
std::string complaint(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<char> read(const void* pointer, std::size_t bytes) {
  std::vector<char> values(bytes);
  EXPECT_EQ(cudaMemcpy(values.data(), pointer, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

TEST(PeerAccessHeap, VirtualRanksOnOneGpuHaveSeparateCopies) {
  SKIP_WITHOUT_GPUS(1);
  const int world = 8;
  auto heap = PeerAccessHeap::create(std::vector<int>(world, 0), heap_bytes);
  ASSERT_EQ(heap.world(), world);
  std::vector<PeerView> views;
  for (int rank = 0; rank < world; ++rank) {
    const SymmetricBuffer buffer = heap.rank(rank).allocate("data", 1000);
    views.push_back(heap.rank(rank).view(buffer));
    EXPECT_EQ(heap.rank(rank).device(), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(views.back().base[rank]) % 1024, 0U);
  }
  heap.check_complete();
  for (int rank = 0; rank < world; ++rank) {  // each writes to its right neighbour
    const int peer = (rank + 1) % world;
    EXPECT_EQ(views[static_cast<std::size_t>(rank)].base[peer], views[static_cast<std::size_t>(peer)].base[peer]);
    ASSERT_EQ(cudaMemset(views[static_cast<std::size_t>(rank)].base[peer], rank + 1, 1000), cudaSuccess);
  }
  for (int rank = 0; rank < world; ++rank) {
    const int writer = (rank + world - 1) % world;
    EXPECT_EQ(read(views[static_cast<std::size_t>(rank)].base[rank], 1000),
              std::vector<char>(1000, static_cast<char>(writer + 1)));
  }
}

TEST(PeerAccessHeap, StartsWithZerosAndClearsReusedMemory) {
  SKIP_WITHOUT_GPUS(1);
  auto heap = PeerAccessHeap::create({0}, heap_bytes);
  HeapRank& rank = heap.rank(0);
  EXPECT_EQ(read(rank.heap_view().base[0], heap_bytes), std::vector<char>(heap_bytes, 0));
  const SymmetricBuffer first = rank.allocate("all of it", heap_bytes);
  ASSERT_EQ(cudaMemset(rank.local(first), 0x5A, heap_bytes), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // release() wants the buffer idle
  rank.release(first);
  const SymmetricBuffer second = rank.allocate("a part", 5000);
  EXPECT_EQ(read(rank.local(second), 5000), std::vector<char>(5000, 0));
}

TEST(PeerAccessHeap, WritesThroughAViewArriveOnThePeer) {
  SKIP_WITHOUT_GPUS(2);
  auto heap = PeerAccessHeap::create({0, 1}, heap_bytes);
  const SymmetricBuffer buffer = heap.rank(0).allocate("data", 4096);
  static_cast<void>(heap.rank(1).allocate("data", 4096));
  heap.check_complete();
  const PeerView view = heap.rank(0).view(buffer);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, view.base[1]), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}}) {
    const cuda::CurrentDevice current(from);
    // Already enabled, in both directions.
    EXPECT_EQ(cudaDeviceEnablePeerAccess(to, 0), cudaErrorPeerAccessAlreadyEnabled);
    static_cast<void>(cudaGetLastError());
  }
  {
    const cuda::CurrentDevice current(0);
    const cuda::DeviceBuffer source(0, 4096, "a test");
    ASSERT_EQ(cudaMemset(source.as<char>(), 0x3C, 4096), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(view.base[1], source.as<char>(), 4096, cudaMemcpyDeviceToDevice), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  const cuda::CurrentDevice current(1);
  EXPECT_EQ(read(heap.rank(1).local(buffer), 4096), std::vector<char>(4096, 0x3C));
  EXPECT_EQ(read(view.base[0], 4096), std::vector<char>(4096, 0));
}

TEST(PeerAccessHeap, PeerAccessThatIsThereAlreadyIsFineAndLeavesNoError) {
  SKIP_WITHOUT_GPUS(2);
  const auto first = PeerAccessHeap::create({0, 1}, heap_bytes);
  const auto second = PeerAccessHeap::create({1, 0, 1}, heap_bytes);
  EXPECT_EQ(second.world(), 3);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(PeerAccessHeap, LeavesTheCallersDeviceCurrent) {
  SKIP_WITHOUT_GPUS(2);
  const cuda::CurrentDevice outer(1);
  const auto current = [] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    return device;
  };
  {
    auto heap = PeerAccessHeap::create({0, 1}, heap_bytes);
    EXPECT_EQ(current(), 1);
    static_cast<void>(heap.rank(0).allocate("data", 100));
    EXPECT_EQ(current(), 1);
  }
  EXPECT_EQ(current(), 1);
}

TEST(PeerAccessHeap, MovesWithItsRanksInPlaceAndFreesAtTheEnd) {
  SKIP_WITHOUT_GPUS(1);
  const char* base = nullptr;
  {
    auto heap = PeerAccessHeap::create({0, 0}, heap_bytes);
    HeapRank* rank = &heap.rank(1);
    base = rank->heap_view().base[1];
    PeerAccessHeap moved = std::move(heap);
    EXPECT_EQ(&moved.rank(1), rank);
    EXPECT_EQ(rank->heap_view().base[1], base);
  }
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, base), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST(PeerAccessHeap, RefusesArgumentsThatBreakARule) {
  SKIP_WITHOUT_GPUS(1);
  const auto refusal = [](const std::vector<int>& devices, std::size_t bytes) {
    return complaint<InputError>([&] { static_cast<void>(PeerAccessHeap::create(devices, bytes)); });
  };
  EXPECT_THAT(refusal({}, heap_bytes), HasSubstr("a heap of 0 ranks: list 1 to 8 devices"));
  EXPECT_THAT(refusal(std::vector<int>(9, 0), heap_bytes), HasSubstr("a heap of 9 ranks"));
  EXPECT_THAT(refusal({0}, 0), HasSubstr("0 bytes per rank"));
  EXPECT_THAT(refusal({0}, SIZE_MAX), HasSubstr("bytes per rank: from 1 to 1099511627776"));
  EXPECT_THAT(refusal({0, 99}, heap_bytes), HasSubstr("rank 1 on device 99: this process sees devices 0 to"));
  EXPECT_THAT(refusal({-1}, heap_bytes), HasSubstr("rank 0 on device -1"));
}

TEST(PeerAccessHeap, SaysWhenMemoryIsShortAndLeavesNothingBehind) {
  SKIP_WITHOUT_GPUS(1);
  EXPECT_THAT(
      complaint<DeviceError>([] { static_cast<void>(PeerAccessHeap::create({0}, PeerAccessHeap::greatest_bytes)); }),
      HasSubstr("the symmetric heap of rank 0 needs"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(PeerAccessHeap::create({0}, heap_bytes).world(), 1);
}

}  // namespace
}  // namespace xstage::symmetric_heap_test
