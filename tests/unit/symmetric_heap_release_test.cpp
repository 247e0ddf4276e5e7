/// Ranks give buffers back in any order; offsets agree all the same.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "unit/symmetric_heap_support.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::symmetric_heap_release_test {
namespace {

using heap_test::complaint;
using heap_test::Heap;
using heap_test::heap_bytes;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t half = heap_bytes / 2;

/// On all ranks; the one place that they must agree on.
SymmetricBuffer allocate_on_all(Heap& heap, const std::string& tag, std::size_t bytes) {
  const SymmetricBuffer first = heap[0].allocate(tag, bytes);
  for (int rank = 1; rank < heap.heap.world(); ++rank) {
    EXPECT_EQ(heap[rank].allocate(tag, bytes).offset, first.offset) << tag << " on rank " << rank;
  }
  return first;
}

TEST(SymmetricHeapRelease, TakesOnlyWhatThisRankHasAllocatedAndNotReleased) {
  Heap heap(2);
  const SymmetricBuffer buffer = allocate_on_all(heap, "a", 100);
  EXPECT_THAT(complaint([&] { heap[0].release({0, 99}); }), HasSubstr("rank 0 releases 99 bytes at offset 0: not an"));
  EXPECT_THAT(complaint([&] { heap[0].release({1024, 100}); }), HasSubstr("not an allocated buffer"));
  heap[0].release(buffer);
  EXPECT_THAT(complaint([&] { heap[0].release(buffer); }), HasSubstr("released already"));
  heap[1].release(buffer);
  EXPECT_THAT(complaint([&] { heap[1].release(buffer); }), HasSubstr("released already"));
}

/// As two operations that a garbage collector finds in another order on each rank.
TEST(SymmetricHeapRelease, NeedsNoOrder) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "a", half);
  const SymmetricBuffer b = allocate_on_all(heap, "b", half);
  heap[0].release(a);
  heap[0].release(b);
  heap[1].release(b);
  heap[1].release(a);
  heap.heap.check_complete();
  EXPECT_EQ(allocate_on_all(heap, "c", heap_bytes).offset, 0U);
}

/// Between two steps of one rank, while the other is behind.
TEST(SymmetricHeapRelease, MayComeBetweenTheStepsOfOthers) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "a", half);
  heap[0].release(a);
  EXPECT_EQ(heap[0].allocate("b", 1024).offset, half);  // rank 1 still holds a
  heap[1].release(a);
  EXPECT_EQ(heap[1].allocate("b", 1024).offset, half);  // a has come back, but not at this step
  EXPECT_EQ(allocate_on_all(heap, "c", half).offset, 0U);
}

TEST(SymmetricHeapRelease, AnIdleRankLearnsLaterWhatHasComeBack) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "a", heap_bytes);
  heap[0].release(a);
  heap[1].release(a);
  const SymmetricBuffer b = heap[1].allocate("b", 2048);
  EXPECT_EQ(heap[1].allocate("c", 1024).offset, 2048U);
  heap[1].release(b);  // rank 0 has not even allocated it
  EXPECT_EQ(heap[1].allocate("d", 1024).offset, 3072U);
  EXPECT_EQ(heap[0].allocate("b", 2048).offset, 0U);
  EXPECT_EQ(heap[0].allocate("c", 1024).offset, 2048U);
  EXPECT_EQ(heap[0].allocate("d", 1024).offset, 3072U);
  heap.heap.check_complete();
}

/// A result tensor that one rank's user keeps costs its own bytes, not the use of the heap.
TEST(SymmetricHeapRelease, AKeptBufferStopsNobody) {
  Heap heap(3);
  const SymmetricBuffer kept = allocate_on_all(heap, "kept", 1024);
  heap[0].release(kept);
  heap[2].release(kept);
  for (int round = 0; round < 100; ++round) {
    const SymmetricBuffer next = allocate_on_all(heap, "next", heap_bytes - 1024);
    EXPECT_EQ(next.offset, 1024U);
    for (const int rank : {1, 0, 2}) {
      heap[rank].release(next);
    }
  }
  EXPECT_EQ(heap[1].view(kept).base[1], heap.storage->base(1));
  EXPECT_THROW(static_cast<void>(heap[0].view(kept)), InputError);
  heap[1].release(kept);
  EXPECT_EQ(allocate_on_all(heap, "all", heap_bytes).offset, 0U);
}

TEST(SymmetricHeapRelease, TooSmallSaysWhoStillHoldsWhat) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "activations", half);
  static_cast<void>(allocate_on_all(heap, "in use", 2048));
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].allocate("b", half)); }), Not(HasSubstr("holds")));
  heap[0].release(a);
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].allocate("b", half)); }),
              HasSubstr("or release buffers first: rank 1 still holds 'activations' (32768 bytes)"));
  heap[1].release(a);
  EXPECT_EQ(allocate_on_all(heap, "b", half).offset, 0U);
}

TEST(SymmetricHeapRelease, ManyHeldBuffersAreCounted) {
  Heap heap(2);
  std::vector<SymmetricBuffer> buffers;
  for (int index = 0; index < 6; ++index) {
    buffers.push_back(allocate_on_all(heap, "b" + std::to_string(index), 1024));
  }
  for (const SymmetricBuffer& buffer : buffers) {
    heap[1].release(buffer);
  }
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[1].allocate("x", heap_bytes)); }),
              HasSubstr("rank 0 still holds 'b3' (1024 bytes), and 2 buffers more"));
}

/// Memory that kernels in flight use stays where it is, though every handle is gone.
TEST(SymmetricHeapRelease, WaitsUntilWhatWasLaunchedHasEnded) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "a", half);
  bool ended = false;
  heap[0].release(a);
  heap[1].release(a, [&] { return ended; });
  EXPECT_EQ(allocate_on_all(heap, "b", 1024).offset, half);
  EXPECT_THAT(complaint([&] { static_cast<void>(heap[0].allocate("c", half)); }),
              HasSubstr("what rank 1 has launched still uses 'a' (32768 bytes)"));
  ended = true;
  EXPECT_EQ(allocate_on_all(heap, "c", half).offset, 0U);
}

/// Whether it has ended is asked at different times by each rank; the first one's answer holds for all.
TEST(SymmetricHeapRelease, WhatEndsBetweenTheRanksOfAStepChangesNoOffset) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "a", 1024);
  bool ended = false;
  heap[0].release(a, [&] { return ended; });
  heap[1].release(a, [&] { return ended; });
  EXPECT_EQ(heap[0].allocate("b", 1024).offset, 1024U);
  ended = true;
  EXPECT_EQ(heap[1].allocate("b", 1024).offset, 1024U);
}

/// The first rank fails at a step; what it had found free is free for the next one that tries.
TEST(SymmetricHeapRelease, AFailedStepGivesNothingBack) {
  Heap heap(2);
  const SymmetricBuffer a = allocate_on_all(heap, "a", heap_bytes);
  heap[0].release(a);
  heap[1].release(a);
  heap.storage->fail = true;
  EXPECT_THROW(static_cast<void>(heap[0].allocate("b", 1024)), DeviceError);
  heap.storage->fail = false;
  EXPECT_EQ(heap[1].allocate("b", 1024).offset, 0U);
  EXPECT_EQ(heap[0].allocate("b", 1024).offset, 0U);
  EXPECT_EQ(allocate_on_all(heap, "c", 1024).offset, 1024U);
}

// ---- any order

/// What each rank of a random program holds, and has to allocate still.
class RandomProgram {
 public:
  RandomProgram(int world, std::uint32_t seed) : heap_(world), random_(seed), ranks_(static_cast<std::size_t>(world)) {}

  void run(int moves) {
    for (int move = 0; move < moves && !testing::Test::HasFailure(); ++move) {
      const int rank = below(static_cast<int>(ranks_.size()));
      if (below(2) == 0) {
        allocate(rank);
      } else {
        release(rank);
      }
    }
  }

 private:
  struct Rank {
    std::size_t steps = 0;
    std::vector<SymmetricBuffer> held;
  };
  struct Step {
    std::size_t bytes;
    std::optional<std::size_t> offset;
  };

  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  void allocate(int rank) {
    Rank& mine = ranks_[static_cast<std::size_t>(rank)];
    if (mine.steps == program_.size()) {
      program_.push_back({static_cast<std::size_t>(1 + below(6000)), std::nullopt});
    }
    Step& step = program_[mine.steps];
    SymmetricBuffer buffer{};
    try {
      buffer = heap_[rank].allocate("step", step.bytes);
    } catch (const InputError& error) {
      EXPECT_EQ(step.offset, std::nullopt) << "there was room for another rank at this step";
      EXPECT_THAT(error.what(), HasSubstr("bytes are left"));
      if (mine.steps + 1 == program_.size() && !step.offset) {
        program_.pop_back();  // nobody has made it: the next try may be another one
      }
      return;
    }
    if (step.offset) {
      ASSERT_EQ(buffer.offset, *step.offset) << "rank " << rank << ", step " << mine.steps;
    }
    step.offset = buffer.offset;
    ++mine.steps;
    expect_free_everywhere(buffer, rank);
    mine.held.push_back(buffer);
  }

  /// No buffer that any rank has not released lies there, unless it is the same one.
  void expect_free_everywhere(const SymmetricBuffer& buffer, int allocating) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const SymmetricBuffer& other : ranks_[rank].held) {
        const bool apart = other.offset + other.bytes <= buffer.offset || buffer.offset + buffer.bytes <= other.offset;
        const bool same =
            static_cast<int>(rank) != allocating && other.offset == buffer.offset && other.bytes == buffer.bytes;
        ASSERT_TRUE(apart || same) << "rank " << rank << " holds " << other.bytes << " bytes at " << other.offset
                                   << ", rank " << allocating << " got " << buffer.bytes << " at " << buffer.offset;
      }
    }
  }

  void release(int rank) {
    std::vector<SymmetricBuffer>& held = ranks_[static_cast<std::size_t>(rank)].held;
    if (held.empty()) {
      return;
    }
    const auto index = static_cast<std::ptrdiff_t>(below(static_cast<int>(held.size())));
    heap_[rank].release(held[static_cast<std::size_t>(index)]);
    held.erase(held.begin() + index);
  }

  Heap heap_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::vector<Step> program_;
};

TEST(SymmetricHeapRelease, OffsetsAgreeAndNothingOverlapsInAnyOrder) {
  for (int world = 2; world <= 8; ++world) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE("world " + std::to_string(world) + ", seed " + std::to_string(seed));
      RandomProgram program(world, seed);
      program.run(1500);
      ASSERT_FALSE(HasFailure());
    }
  }
}

}  // namespace
}  // namespace xstage::symmetric_heap_release_test
