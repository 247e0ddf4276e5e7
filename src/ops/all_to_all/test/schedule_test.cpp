// Chunks of an all-to-all: the schedule of all ranks moves every byte to its place once, in the order that it states.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/random_bits.hpp"
#include "ops/all_to_all/problem.hpp"
#include "xstage/attention.hpp"

namespace xstage::all_to_all::schedule_test {
namespace {

using schedule::AllToAllChunk;
using schedule::AllToAllSchedule;
using schedule::AllToAllShare;

struct Case {
  Problem problem;
  Plan plan;
  int world;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(bench::random_bits(seed_, count_++) % static_cast<std::uint64_t>(most - least + 1));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

Case random_case(Random& random) {
  Case made;
  made.world = random.between(1, max_world);
  made.problem.sequences = random.between(1, 3);
  made.problem.rows = random.between(0, 2) == 0 ? random.between(1, 2 * made.world) : random.between(1, 90);
  made.problem.heads = made.world * random.between(1, 7);
  made.problem.head_dim = 8 * random.between(1, 9);
  made.plan.chunk_bytes = made.problem.head_dim * element_bytes + random.between(0, 2000);
  made.plan.issuers = random.between(1, 12);
  made.plan.peer_issuers = made.world == 1 ? 0 : random.between(1, made.plan.issuers);
  made.plan = complete_plan(made.problem, made.plan, made.world, 132);
  return made;
}

AllToAllSchedule schedule_of(const Case& which, int rank) {
  return make_schedule(which.problem, which.plan, rank, which.world);
}

/// All chunks that a rank's CTAs move, CTA by CTA.
template <typename Function>
void for_each_chunk(const AllToAllSchedule& schedule, Function&& function) {
  for (int block = 0; block < schedule.tiling().blocks; ++block) {
    const AllToAllShare share = schedule.share(block);
    for (int number = 0; number < share.chunks; ++number) {
      function(schedule.chunk(share, block, number), block, number);
    }
  }
}

std::size_t offset(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

/// What the kernel does with chunks, on the host; a result counts how often each byte was written.
struct Results {
  std::vector<std::vector<char>> bytes;
  std::vector<std::vector<char>> writes;
};

void move_chunks(const Case& which, int rank, const std::vector<char>& input, Results& results) {
  const AllToAllSchedule schedule = schedule_of(which, rank);
  const std::int64_t first_head = std::int64_t{rank} * schedule.shape().heads * schedule.shape().head_bytes;
  for_each_chunk(schedule, [&](const AllToAllChunk& chunk, int, int) {
    const auto to = static_cast<std::size_t>(chunk.destination);
    const std::int64_t bytes = schedule.row_bytes(chunk);
    ASSERT_GE(chunk.rows, 1);
    ASSERT_GE(chunk.heads, 1);
    ASSERT_LE(chunk.rows * bytes, stage_bytes(which.problem, which.plan, which.world));
    for (int row = 0; row < chunk.rows; ++row) {
      const std::int64_t source = schedule.source(chunk) + row * bytes;
      const std::int64_t target = first_head + schedule.target(chunk) + row * schedule.pitch();
      ASSERT_LE(offset(source + bytes), input.size());
      ASSERT_LE(offset(target + bytes), results.bytes[to].size());
      std::memcpy(results.bytes[to].data() + target, input.data() + source, offset(bytes));
      for (std::int64_t byte = 0; byte < bytes; ++byte) {
        ++results.writes[to][offset(target + byte)];
      }
    }
  });
}

/// The byte of the input that rank `rank` holds at [sequence, row, head of all, byte].
char input_byte(std::int64_t sequence, std::int64_t row, std::int64_t head, std::int64_t byte) {
  const std::int64_t place = ((sequence * 1000 + row) * 1000 + head) * 1000 + byte;
  return static_cast<char>(bench::random_bits(7, static_cast<std::uint64_t>(place)) & 0x7FU);
}

std::vector<char> make_tensor(const Problem& problem, std::int64_t first_row, std::int64_t rows,
                              std::int64_t first_head, std::int64_t heads) {
  std::vector<char> bytes;
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    for (std::int64_t row = first_row; row < first_row + rows; ++row) {
      for (std::int64_t head = first_head; head < first_head + heads; ++head) {
        for (std::int64_t byte = 0; byte < problem.head_dim * element_bytes; ++byte) {
          bytes.push_back(input_byte(sequence, row, head, byte));
        }
      }
    }
  }
  return bytes;
}

TEST(AllToAllSchedule, EveryByteArrivesOnce) {
  Random random(1);
  for (int repetition = 0; repetition < 120; ++repetition) {
    const Case which = random_case(random);
    SCOPED_TRACE(statement(which.problem, which.plan) + " on " + std::to_string(which.world) + " ranks, chunks of " +
                 std::to_string(which.plan.chunk_bytes));
    Results results;
    for (int rank = 0; rank < which.world; ++rank) {
      const std::size_t bytes = result_bytes(which.problem, rank, which.world);
      results.bytes.emplace_back(bytes, char{-1});
      results.writes.emplace_back(bytes, char{0});
    }
    const int heads = which.problem.heads / which.world;
    for (int rank = 0; rank < which.world; ++rank) {
      move_chunks(which, rank, make_tensor(which.problem, 0, which.problem.rows, std::int64_t{rank} * heads, heads),
                  results);
    }
    for (int rank = 0; rank < which.world; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const attention::RowRange own = attention::row_range(which.problem.rows, rank, which.world);
      EXPECT_EQ(results.bytes[at] == make_tensor(which.problem, own.begin, own.count, 0, which.problem.heads), true);
      EXPECT_TRUE(std::all_of(results.writes[at].begin(), results.writes[at].end(), [](char n) { return n == 1; }));
    }
  }
}

TEST(AllToAllSchedule, PeersComeFirstAndTheNextRankFirstOfThem) {
  Random random(2);
  for (int repetition = 0; repetition < 200; ++repetition) {
    const Case which = random_case(random);
    for (int rank = 0; rank < which.world; ++rank) {
      const AllToAllSchedule schedule = schedule_of(which, rank);
      int block_before = -1;
      int distance_before = 0;
      for_each_chunk(schedule, [&](const AllToAllChunk& chunk, int block, int number) {
        const int distance = (chunk.destination - rank + which.world - 1) % which.world;  // own rows: world - 1
        EXPECT_TRUE(block != block_before || distance >= distance_before);
        EXPECT_EQ(chunk.destination != rank, number < schedule.share(block).peer_chunks);
        block_before = block;
        distance_before = distance;
      });
    }
  }
}

TEST(AllToAllSchedule, TasksAreDividedBetweenCtas) {
  Random random(3);
  for (int repetition = 0; repetition < 200; ++repetition) {
    const Case which = random_case(random);
    const AllToAllSchedule schedule = schedule_of(which, random.between(0, which.world - 1));
    const int peer_blocks = which.plan.peer_issuers;
    const bool both = peer_blocks == which.plan.issuers;
    const int own_blocks = both ? which.plan.issuers : which.plan.issuers - peer_blocks;
    const int own_chunks = schedule.chunks() - schedule.peer_chunks();
    for (int block = 0; block < which.plan.issuers; ++block) {
      const AllToAllShare share = schedule.share(block);
      const int own = share.chunks - share.peer_chunks;
      if (block < peer_blocks) {  // as many as the others, or one more
        EXPECT_GE(share.peer_chunks, schedule.peer_chunks() / peer_blocks);
        EXPECT_LE(share.peer_chunks, (schedule.peer_chunks() + peer_blocks - 1) / peer_blocks);
      } else {
        EXPECT_EQ(share.peer_chunks, 0);
      }
      if (both || block >= peer_blocks) {
        EXPECT_GE(own, own_chunks / own_blocks);
        EXPECT_LE(own, (own_chunks + own_blocks - 1) / own_blocks);
      } else {
        EXPECT_EQ(own, 0);
      }
    }
  }
}

/// Offsets of large tensors do not fit 32 bits.
TEST(AllToAllSchedule, LargeTensors) {
  const Problem problem{2, 1 << 20, 48, 128};  // 12 GiB of input a rank
  const int world = 2;
  const Plan plan = make_plan(problem, world, 132);
  const AllToAllSchedule schedule = make_schedule(problem, plan, 1, world);
  std::int64_t source_end = 0;
  std::int64_t target_end = 0;
  for_each_chunk(schedule, [&](const AllToAllChunk& chunk, int, int) {
    const std::int64_t bytes = schedule.row_bytes(chunk);
    source_end = std::max(source_end, schedule.source(chunk) + chunk.rows * bytes);
    target_end = std::max(target_end, schedule.target(chunk) + (chunk.rows - 1) * schedule.pitch() + bytes);
  });
  const std::int64_t row_bytes = 24 * 128 * 2;
  EXPECT_EQ(source_end, 2 * problem.rows * row_bytes);
  EXPECT_EQ(target_end, problem.rows * 2 * row_bytes - row_bytes);  // the other rank's heads of the last row lie behind
}

}  // namespace
}  // namespace xstage::all_to_all::schedule_test
