/// What one rank sees of a heap, over host memory: everything but the mapping of devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "unit/symmetric_heap_support.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::symmetric_heap_ranks_test {
namespace {

using heap_test::complaint;
using heap_test::Heap;
using heap_test::heap_bytes;
using testing::HasSubstr;

static_assert(std::is_trivial_v<PeerView> && std::is_standard_layout_v<PeerView>, "a launch copies it bit by bit");

bool all_are(const void* pointer, std::size_t bytes, char value) {
  const char* start = static_cast<const char*>(pointer);
  return std::all_of(start, start + bytes, [&](char c) { return c == value; });
}

TEST(SymmetricHeap, EveryRankGetsTheSameOffsetsAndSeesEveryCopy) {
  for (const int world : {1, 2, 3, 8}) {
    Heap heap(world);
    for (int rank = 0; rank < world; ++rank) {
      const SymmetricBuffer first = heap[rank].allocate("a", 100);
      const SymmetricBuffer second = heap[rank].allocate("b", 3000, 4096);
      EXPECT_EQ(first.offset, 0U);
      EXPECT_EQ(second.offset, 4096U);
      EXPECT_EQ(second.bytes, 3000U);
      const PeerView view = heap[rank].view(second);
      EXPECT_EQ(view.rank, rank);
      EXPECT_EQ(view.world, world);
      for (int peer = 0; peer < max_world; ++peer) {
        EXPECT_EQ(view.base[peer], peer < world ? heap.storage->base(peer) + 4096 : nullptr);
      }
      EXPECT_EQ(heap[rank].local(second), view.base[rank]);
      EXPECT_EQ(heap[rank].heap_view().base[rank], heap.storage->base(rank));
      EXPECT_EQ(heap[rank].device(), 10 + rank);
      EXPECT_EQ(heap[rank].bytes(), heap_bytes);
    }
    heap.heap.check_complete();
  }
}

TEST(SymmetricHeap, AllocateClearsTheOwnCopyOfTheBufferAlone) {
  Heap heap(2);
  const SymmetricBuffer buffer = heap[0].allocate("a", 100);
  EXPECT_TRUE(all_are(heap[0].local(buffer), 100, 0));
  EXPECT_EQ(heap.storage->base(0)[100], 0x5A);
  EXPECT_TRUE(all_are(heap.storage->base(1), heap_bytes, 0x5A));
}

TEST(SymmetricHeap, ReusedMemoryIsClearedAgain) {
  Heap heap(1);
  const SymmetricBuffer first = heap[0].allocate("a", 100);
  std::memset(heap[0].local(first), 7, 100);
  heap[0].release(first);
  const SymmetricBuffer second = heap[0].allocate("b", 64);
  EXPECT_EQ(second.offset, first.offset);
  EXPECT_TRUE(all_are(heap[0].local(second), 64, 0));
}

TEST(SymmetricHeap, DisagreementOnTagSizeOrAlignmentChangesNothing) {
  Heap heap(2);
  static_cast<void>(heap[0].allocate("workspace", 4096));
  for (const auto& [tag, bytes, alignment] :
       std::vector<std::tuple<std::string, std::size_t, std::size_t>>{{"signals", 4096, 1024},
                                                                      {"workspace", 8192, 1024},
                                                                      {"workspace", 4096, 128},
                                                                      {"workspace", heap_bytes, 1024}}) {
    const std::string text =
        complaint([&, t = tag, b = bytes, a = alignment] { static_cast<void>(heap[1].allocate(t, b, a)); });
    EXPECT_EQ(text, "rank 1 allocates '" + tag + "' (" + std::to_string(bytes) + " bytes, aligned to " +
                        std::to_string(alignment) +
                        ") as its 1st step, rank 0 allocated 'workspace' (4096 bytes, aligned to 1024): every rank "
                        "must make the same calls in the same order");
  }
  EXPECT_EQ(heap[1].steps(), 0U);
  EXPECT_EQ(heap[1].allocate("workspace", 4096).offset, 0U);
}

TEST(SymmetricHeap, DisagreementOnAStatementNamesBoth) {
  Heap heap(2);
  heap[1].agree("gemm m=4096 n=8192");
  EXPECT_THAT(complaint([&] { heap[0].agree("gemm m=4096 n=4096"); }),
              HasSubstr("rank 0 states 'gemm m=4096 n=4096' as its 1st step, rank 1 stated 'gemm m=4096 n=8192'"));
  heap[0].agree("gemm m=4096 n=8192");
  EXPECT_EQ(heap[0].steps(), 1U);
}

TEST(SymmetricHeap, TooSmallSaysHowMuchWasAskedAndLeft) {
  Heap heap(2);
  static_cast<void>(heap[0].allocate("a", 16384));
  EXPECT_EQ(complaint([&] { static_cast<void>(heap[0].allocate("activations", 60000)); }),
            "rank 0 allocates 'activations' (60000 bytes, aligned to 1024): 49152 of the heap's 65536 bytes are left, "
            "49152 of them in one piece; create the heap with more bytes per rank, or release buffers first");
  EXPECT_EQ(heap[0].steps(), 1U);
  EXPECT_EQ(heap[0].allocate("b", 49152).offset, 16384U);  // all that is left
}

/// No rank takes the step, so the second one must not hear that it disagrees with the first.
TEST(SymmetricHeap, TooSmallIsSaidOnEveryRank) {
  Heap heap(2);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(complaint([&] { static_cast<void>(heap[rank].allocate("workspace", heap_bytes + 1)); }),
              "rank " + std::to_string(rank) +
                  " allocates 'workspace' (65537 bytes, aligned to 1024): 65536 of the heap's 65536 bytes are left, "
                  "65536 of them in one piece; create the heap with more bytes per rank, or release buffers first");
    EXPECT_EQ(heap[rank].steps(), 0U);
  }
}

TEST(SymmetricHeap, TooSmallIsSaidBeforeADisagreement) {
  Heap heap(2);
  heap[0].agree("handle that rank 0 has made instead");
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[1].allocate("workspace", heap_bytes + 1)); }),
              HasSubstr("65536 of the heap's 65536 bytes are left"));
  EXPECT_EQ(heap[1].steps(), 0U);
}

TEST(SymmetricHeap, AFailedClearLeavesTheRankWhereItWas) {
  Heap heap(2);
  heap.storage->fail = true;
  EXPECT_THROW(static_cast<void>(heap[0].allocate("a", heap_bytes)), DeviceError);
  EXPECT_EQ(heap[0].steps(), 0U);
  heap.storage->fail = false;
  EXPECT_EQ(heap[0].allocate("b", heap_bytes).offset, 0U);
}

TEST(SymmetricHeap, RefusesSizesAndAlignmentsThatBreakARule) {
  Heap heap(1);
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].allocate("a", 0)); }), HasSubstr("'a' of 0 bytes"));
  for (const std::size_t alignment : {0U, 1U, 8U, 24U, 1000U, 131072U}) {
    EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].allocate("a", 64, alignment)); }),
                HasSubstr("aligned to " + std::to_string(alignment) + ": an alignment is a power of two from 16"));
  }
  for (const std::size_t alignment : {16U, 128U, 65536U}) {
    const SymmetricBuffer buffer = heap[0].allocate("a", 64, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(heap[0].local(buffer)) % alignment, 0U);
    heap[0].release(buffer);
  }
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[1]); }), HasSubstr("rank 1: the heap has ranks 0 to 0"));
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[-1]); }), HasSubstr("rank -1"));
}

TEST(SymmetricHeap, ViewsReachAllocatedMemoryOnly) {
  Heap heap(1);
  const SymmetricBuffer buffer = heap[0].allocate("a", 100);
  EXPECT_EQ(heap[0].local({buffer.offset + 16, 84}), heap.storage->base(0) + 16);
  EXPECT_THROW(static_cast<void>(heap[0].view({0, 101})), InputError);
  EXPECT_THROW(static_cast<void>(heap[0].view({2048, 4})), InputError);
  heap[0].release(buffer);
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].view(buffer)); }),
              HasSubstr("100 bytes at offset 0 of rank 0's heap are not (or no longer) in one allocated buffer"));
}

TEST(SymmetricHeap, FindsATensorThatLivesInIt) {
  Heap heap(2);
  static_cast<void>(heap[0].allocate("a", 100));
  const SymmetricBuffer buffer = heap[0].allocate("b", 1000);
  char* tensor = static_cast<char*>(heap[0].local(buffer)) + 64;
  EXPECT_EQ(heap[0].offset_of(tensor), std::optional<std::size_t>(1024 + 64));
  const SymmetricBuffer found = heap[0].buffer_at(tensor, 936);
  EXPECT_EQ(found.offset, 1024U + 64);
  EXPECT_EQ(found.bytes, 936U);
  EXPECT_EQ(heap[0].view(found).base[1], heap.storage->base(1) + 1024 + 64);
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].buffer_at(tensor, 937)); }),
              HasSubstr("are not in one buffer of rank 0's heap"));
}

TEST(SymmetricHeap, KnowsItsOwnAddressesAndNoOthers) {
  Heap heap(2);
  const char* base = heap.storage->base(0);
  EXPECT_TRUE(heap[0].contains(base, heap_bytes));
  EXPECT_TRUE(heap[0].contains(base + heap_bytes - 1, 1));
  EXPECT_FALSE(heap[0].contains(base + 1, heap_bytes));
  EXPECT_FALSE(heap[0].contains(base + heap_bytes, 0));
  EXPECT_FALSE(heap[0].contains(base + 16, SIZE_MAX));
  EXPECT_FALSE(heap[0].contains(heap.storage->base(1), 1));  // a peer's copy
  EXPECT_FALSE(heap[0].contains(nullptr, 1));
  EXPECT_EQ(heap[0].offset_of(heap.storage->base(1)), std::nullopt);
  EXPECT_THROW(static_cast<void>(heap[0].buffer_at(nullptr, 1)), InputError);
}

TEST(SymmetricHeap, AnOperationWaitsForItsOwnStepsOnly) {
  Heap heap(2);
  heap[0].agree("first operation");
  const std::size_t created = heap[0].steps();
  EXPECT_THAT(
      complaint([&] { heap[0].check_complete(created); }),
      HasSubstr("rank 1 has made 0 of 1 collective calls; rank 1 lacks its 1st step, where rank 0 stated 'first"));
  heap[1].agree("first operation");
  heap[0].agree("second operation");
  heap[0].check_complete(created);
  EXPECT_THROW(heap.heap.check_complete(), InputError);
}

}  // namespace
}  // namespace xstage::symmetric_heap_ranks_test
