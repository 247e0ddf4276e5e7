/// Offsets of a symmetric heap: first fit, coalescing, the same on every rank.

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "heap/offset_allocator.hpp"

namespace xstage::memory::symmetric_heap_allocator_test {
namespace {

using Offset = std::optional<std::size_t>;

TEST(OffsetAllocator, TakesTheLowestOffsetThatFits) {
  OffsetAllocator allocator(4096);
  EXPECT_EQ(allocator.allocate(100, 16), Offset(0));
  EXPECT_EQ(allocator.allocate(100, 1024), Offset(1024));
  // The piece that alignment left between them still serves.
  EXPECT_EQ(allocator.allocate(900, 16), Offset(112));
  EXPECT_EQ(allocator.allocate(900, 16), Offset(1136));
  EXPECT_EQ(allocator.free_bytes(), 4096U - 100 - 100 - 900 - 900);
}

TEST(OffsetAllocator, UsesTheLastByteAndNoMore) {
  OffsetAllocator allocator(1024);
  EXPECT_EQ(allocator.allocate(1025, 1), std::nullopt);
  EXPECT_EQ(allocator.allocate(1024, 1), Offset(0));
  EXPECT_EQ(allocator.free_bytes(), 0U);
  EXPECT_EQ(allocator.largest_free_bytes(), 0U);
  EXPECT_EQ(allocator.allocate(1, 1), std::nullopt);
}

TEST(OffsetAllocator, SizesNearTheLargestNumberDoNotWrapAround) {
  OffsetAllocator allocator(4096);
  ASSERT_EQ(allocator.allocate(1, 1), Offset(0));
  EXPECT_EQ(allocator.allocate(std::numeric_limits<std::size_t>::max(), 1024), std::nullopt);
  EXPECT_EQ(allocator.allocate(std::numeric_limits<std::size_t>::max() - 1023, 1024), std::nullopt);
  EXPECT_EQ(allocator.allocate(16, 65536), std::nullopt);
  EXPECT_FALSE(allocator.in_use(0, std::numeric_limits<std::size_t>::max()));
}

TEST(OffsetAllocator, JoinsFreePiecesOnBothSides) {
  for (const auto& order : std::vector<std::vector<std::size_t>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    OffsetAllocator allocator(3 * 1024);
    for (std::size_t piece = 0; piece < 3; ++piece) {
      ASSERT_EQ(allocator.allocate(1024, 1024), Offset(piece * 1024));
    }
    for (const std::size_t piece : order) {
      EXPECT_TRUE(allocator.release(piece * 1024, 1024));
    }
    EXPECT_EQ(allocator.largest_free_bytes(), 3U * 1024);
    EXPECT_EQ(allocator.allocate(3 * 1024, 1024), Offset(0));
  }
}

TEST(OffsetAllocator, TellsFreeBytesFromBytesInOnePiece) {
  OffsetAllocator allocator(3 * 1024);
  for (std::size_t piece = 0; piece < 3; ++piece) {
    ASSERT_EQ(allocator.allocate(1024, 1024), Offset(piece * 1024));
  }
  ASSERT_TRUE(allocator.release(0, 1024));
  ASSERT_TRUE(allocator.release(2048, 1024));
  EXPECT_EQ(allocator.free_bytes(), 2048U);
  EXPECT_EQ(allocator.largest_free_bytes(), 1024U);
  EXPECT_EQ(allocator.allocate(2048, 16), std::nullopt);
}

TEST(OffsetAllocator, ReleasesOnlyWhatItGaveAndOnlyOnce) {
  OffsetAllocator allocator(4096);
  ASSERT_EQ(allocator.allocate(100, 16), Offset(0));
  EXPECT_FALSE(allocator.release(0, 99));
  EXPECT_FALSE(allocator.release(16, 84));
  EXPECT_FALSE(allocator.release(1024, 100));
  EXPECT_EQ(allocator.free_bytes(), 3996U);
  EXPECT_TRUE(allocator.release(0, 100));
  EXPECT_FALSE(allocator.release(0, 100));
  EXPECT_EQ(allocator.free_bytes(), 4096U);
}

TEST(OffsetAllocator, KnowsWhichBytesAreInUse) {
  OffsetAllocator allocator(4096);
  EXPECT_FALSE(allocator.in_use(0, 1));
  ASSERT_EQ(allocator.allocate(100, 16), Offset(0));
  ASSERT_EQ(allocator.allocate(100, 1024), Offset(1024));
  EXPECT_TRUE(allocator.in_use(0, 100));
  EXPECT_TRUE(allocator.in_use(1123, 1));
  EXPECT_FALSE(allocator.in_use(0, 101));
  EXPECT_FALSE(allocator.in_use(100, 1));
  EXPECT_FALSE(allocator.in_use(1024, 101));
  EXPECT_FALSE(allocator.in_use(4096, 0));
}

/// A long random life: pieces never overlap, are aligned and inside, nothing leaks, and a second allocator that gets
/// the same calls gives the same offsets.
TEST(OffsetAllocator, SurvivesARandomLifeAndIsDeterministic) {
  constexpr std::size_t total = 1U << 16U;
  OffsetAllocator allocator(total);
  OffsetAllocator twin(total);
  std::mt19937 random(7);
  std::vector<std::pair<std::size_t, std::size_t>> live;
  std::size_t used = 0;
  for (int call = 0; call < 5000; ++call) {
    if (live.empty() || random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % 4096;
      const std::size_t alignment = std::size_t{16} << (random() % 7);
      const auto offset = allocator.allocate(bytes, alignment);
      ASSERT_EQ(offset, twin.allocate(bytes, alignment));
      if (!offset) {
        continue;
      }
      EXPECT_EQ(*offset % alignment, 0U);
      EXPECT_LE(*offset + bytes, total);
      for (const auto& [other, length] : live) {
        ASSERT_TRUE(*offset + bytes <= other || other + length <= *offset);
      }
      live.emplace_back(*offset, bytes);
      used += bytes;
    } else {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(allocator.release(live.back().first, live.back().second));
      ASSERT_TRUE(twin.release(live.back().first, live.back().second));
      used -= live.back().second;
      live.pop_back();
    }
    ASSERT_EQ(allocator.free_bytes(), total - used);
  }
  for (const auto& [offset, bytes] : live) {
    EXPECT_TRUE(allocator.release(offset, bytes));
  }
  EXPECT_EQ(allocator.largest_free_bytes(), total);
}

}  // namespace
}  // namespace xstage::memory::symmetric_heap_allocator_test
