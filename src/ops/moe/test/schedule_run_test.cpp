// Simulated runs of CTAs through the tiles of an MoE schedule: all of them end, for any durations and with the smallest
// ring, and no CTA has more work than the others.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/moe/lead.hpp"
#include "ops/moe/test/schedule_run.hpp"

namespace xstage::schedule_run_test {
namespace {

using schedule::ExpertWave;
using schedule::Interleaved;
using schedule::MoeLinear;
using schedule::MoeTile;
using schedule::MoeTileTimes;

template <typename Schedule>
class MoeScheduleRun : public testing::Test {};
using Schedules = testing::Types<ExpertWave, Interleaved>;
TYPED_TEST_SUITE(MoeScheduleRun, Schedules);

/// Durations between 1 and 1000, sometimes of 20000; some CTAs are slow for all of their tiles.
template <typename Schedule>
typename MoeRun<Schedule>::Duration adversary(MoeRandom& random, std::int32_t ctas) {
  std::vector<std::int64_t> slowness(static_cast<std::size_t>(ctas), 1);
  for (std::int64_t& slow : slowness) {
    slow = random.between(0, 9) == 0 ? random.between(2, 100) : 1;
  }
  return [&random, slowness](std::size_t cta, const MoeTile&) {
    return slowness[cta] * (random.between(0, 50) == 0 ? 20000 : random.between(1, 1000));
  };
}

template <typename Schedule>
MoeCase<Schedule> case_of(std::vector<std::int32_t> counts, MoeRandom& random) {
  const std::int32_t linear1 = random.between(1, 12);
  const std::int32_t linear2 = random.between(1, 16);
  return MoeCase<Schedule>(std::move(counts), moe_tiling(32, linear1, linear2), random.between(1, 12));
}

template <typename Schedule>
void expect_end_with_the_least_ring(const MoeCase<Schedule>& test, std::int32_t ctas, MoeRandom& random) {
  const std::int32_t ring = test.schedule.ring_blocks();
  for (const MoeClaims claims : {MoeClaims::drawn, MoeClaims::in_turn}) {
    const MoeRunResult result =
        MoeRun<Schedule>(test.schedule, ctas, ring, claims, adversary<Schedule>(random, ctas)).run();
    ASSERT_TRUE(result.finished) << ctas << " CTAs, " << test.describe();
    ASSERT_LE(result.most_alive, ring) << ctas << " CTAs, " << test.describe();
  }
}

/// Each number of CTAs with counts of both kinds.
TYPED_TEST(MoeScheduleRun, EndsWithTheLeastRingForEveryNumberOfCtas) {
  std::int32_t next = 0;
  for_counts(1, 400, 1500, [&](const std::vector<std::int32_t>& counts, MoeRandom& random) {
    const std::int32_t ctas = 1 + next++ % 200;
    expect_end_with_the_least_ring(case_of<TypeParam>(counts, random), ctas, random);
  });
  EXPECT_TRUE(next == 800 || this->HasFailure());
}

/// With one slot less Linear-1 waits for Linear-2 that is queued behind it: the ring is no larger than it has to be.
/// The interleaved one needs its last slot only where a step has a tile of Linear-1 before one of Linear-2.
TYPED_TEST(MoeScheduleRun, HangsWithOneSlotLess) {
  int tried = 0;
  for_counts(2, 200, 1500, [&](const std::vector<std::int32_t>& counts, MoeRandom& random) {
    const auto test = case_of<TypeParam>(counts, random);
    const std::int32_t ring = test.schedule.ring_blocks() - 1;
    if (ring < 1 || (std::is_same_v<TypeParam, Interleaved> && test.schedule.tiling().linear2_tiles.value() < 2)) {
      return;
    }
    ++tried;
    const auto one = [](std::size_t, const MoeTile&) { return std::int64_t{1}; };
    ASSERT_FALSE(MoeRun<TypeParam>(test.schedule, 1, ring, MoeClaims::drawn, one).run().finished) << test.describe();
  });
  EXPECT_GT(tried, 100);
}

template <typename Values>
auto difference(const Values& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

/// CTAs that draw end within a tile of each other; those that take in turn have as many tiles.
TYPED_TEST(MoeScheduleRun, WorkIsEqualWithinATile) {
  MoeRandom random(3);
  for (std::int32_t ctas = 1; ctas <= 200; ctas += 7) {
    const MoeTileTimes times{random.between(100, 1000), random.between(100, 1000)};
    const std::int32_t linear1 = random.between(1, 12);
    const auto tiling = moe_tiling(32, linear1, random.between(1, 16));
    // No waits: Interleaved with its lead, ExpertWave if Linear-1 of one wave is done as soon as Linear-2 begins.
    constexpr bool interleaved = std::is_same_v<TypeParam, Interleaved>;
    const std::int32_t lead = sufficient_lead(tiling, ctas, times);
    const MoeCase<TypeParam> test({32 * (2 * lead + random.between(0, 9))}, tiling, interleaved ? lead : 1);
    const auto given = [&](std::size_t, const MoeTile& tile) {
      return tile.linear == MoeLinear::one ? times.linear1 : times.linear2;
    };
    const MoeRunResult drawn = MoeRun<TypeParam>(test.schedule, ctas, test.blocks(), MoeClaims::drawn, given).run();
    ASSERT_EQ(drawn.linear1_waits + drawn.linear2_waits, 0) << test.describe();
    ASSERT_LE(difference(drawn.end), std::max(times.linear1, times.linear2)) << ctas << " CTAs, " << test.describe();
    const MoeRunResult in_turn = MoeRun<TypeParam>(test.schedule, ctas, test.blocks(), MoeClaims::in_turn, given).run();
    ASSERT_LE(difference(in_turn.tiles), 1) << ctas << " CTAs, " << test.describe();
  }
}

}  // namespace
}  // namespace xstage::schedule_run_test
