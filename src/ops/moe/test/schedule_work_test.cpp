// Equal work: the difference between the busiest and the least busy CTA, when CTAs draw tiles and all tiles of a kind
// last equally long.
//
// A CTA draws its next tile when its last one is done. When the last of all tiles is drawn, each CTA has therefore been
// busy all the time but for its waits; after that each does at most the tile that it holds. Hence
//
//   most busy - least busy <= longest tile + longest wait of a CTA in all
//
// and everything depends on waits. Cut the claim order into phases, such that a tile waits for tiles of earlier phases
// only. Of phase p let T(p) be when its last tile is drawn, t(p) how long its longest one lasts, and
//
//   F(p) = max(T(p), F(p - 1)) + t(p)
//
// Tiles of phase p + 1 are drawn at T(p) or later and, if they wait, begin at F(p) or earlier: by induction all tiles
// up to phase p are done by F(p). So while a CTA waits, the time is between T(p) and F(p) of some phase with another
// behind it, and all these intervals together are no longer than the sum of t(p), for each adds at most that to those
// before. With a slot of the ring for each block Linear-1 never waits: then F(p) = T(p) + linear1 for phases of
// Linear-1, and only these count.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "ops/moe/lead.hpp"
#include "ops/moe/test/schedule_run.hpp"

namespace xstage::schedule_work_test {
namespace {

using schedule::ExpertWave;
using schedule::Interleaved;
using schedule::MoeLinear;
using schedule::MoeTile;
using schedule::MoeTileTimes;
using schedule::MoeTiling;

struct Machine {
  std::int32_t ctas;
  MoeTileTimes times;
};

std::int64_t longest_tile(const MoeTileTimes& times) { return std::max(times.linear1, times.linear2); }

template <typename Values>
auto difference(const Values& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

template <typename Schedule>
MoeRunResult run(const MoeCase<Schedule>& test, const Machine& machine, std::int32_t ring) {
  const auto duration = [&](std::size_t, const MoeTile& tile) {
    return tile.linear == MoeLinear::one ? machine.times.linear1 : machine.times.linear2;
  };
  return MoeRun<Schedule>(test.schedule, machine.ctas, ring, MoeClaims::drawn, duration).run();
}

/// Checks that no CTA waits longer in all than `longest_wait`, and the difference that follows.
template <typename Schedule>
void expect_equal_work(const MoeCase<Schedule>& test, const Machine& machine, const MoeRunResult& result,
                       std::int64_t longest_wait) {
  const MoeTiling& tiling = test.schedule.tiling();
  const std::int64_t work = test.blocks() * (tiling.linear1_tiles.value() * machine.times.linear1 +
                                             tiling.linear2_tiles.value() * machine.times.linear2);
  ASSERT_TRUE(result.finished);
  ASSERT_EQ(std::accumulate(result.busy.begin(), result.busy.end(), std::int64_t{0}), work);
  ASSERT_LE(*std::max_element(result.waited.begin(), result.waited.end()), longest_wait);
  ASSERT_LE(difference(result.busy), longest_tile(machine.times) + longest_wait);
}

/// Few CTAs and many, tiles of unequal durations and of the same.
Machine random_machine(MoeRandom& random) {
  const std::int32_t ctas = random.between(0, 1) == 0 ? random.between(1, 12) : random.between(1, 200);
  const std::int64_t linear1 = random.between(50, 1000);
  const std::int64_t linear2 = random.between(0, 3) == 0 ? linear1 : random.between(50, 1000);
  return {ctas, {linear1, linear2}};
}

/// Calls `check(test, machine, random)` for several experts with any counts.
template <typename Schedule, typename Check>
void for_machines(std::uint32_t seed, int rounds, Check&& check) {
  for_counts(seed, rounds, 2500, [&](const std::vector<std::int32_t>& counts, MoeRandom& random) {
    const Machine machine = random_machine(random);
    const std::int32_t linear1 = random.between(1, 16);
    const std::int32_t linear2 = random.between(1, 24);
    const bool most = random.between(0, 1) == 0;  // few waves of many experts, or a short lead
    const std::int32_t parameter = random.between(1, most ? 24 : 3);
    const MoeCase<Schedule> test(counts, moe_tiling(32, linear1, linear2), parameter);
    SCOPED_TRACE(test.describe() + ", " + std::to_string(machine.ctas) + " CTAs, tiles last " +
                 std::to_string(machine.times.linear1) + " and " + std::to_string(machine.times.linear2));
    check(test, machine, random);
  });
}

// ---- expert waves

/// Blocks of each wave that has any.
std::vector<std::int32_t> blocks_of_waves(const MoeCase<ExpertWave>& test) {
  std::vector<std::int32_t> blocks;
  for (std::size_t begin = 0; begin < test.counts.size(); begin += static_cast<std::size_t>(test.parameter)) {
    const std::size_t end = std::min(begin + static_cast<std::size_t>(test.parameter), test.counts.size());
    std::int32_t wave = 0;
    for (std::size_t expert = begin; expert < end; ++expert) {
      wave += schedule::moe_blocks(test.counts[expert], test.schedule.tiling().block_rows);
    }
    if (wave > 0) {
      blocks.push_back(wave);
    }
  }
  return blocks;
}

/// Whether Linear-2 can be drawn while Linear-1 of its block lasts, in a wave of so many blocks whose Linear-1 does not
/// wait. All tiles drawn between the two are drawn by the other CTAs while that last tile of Linear-1 lasts: Linear-1
/// of later blocks, after which its CTA draws nothing more in this time, and then Linear-2 of earlier blocks, of which
/// a CTA draws no more than have room.
bool may_wait(const MoeTiling& tiling, const Machine& machine, std::int32_t blocks) {
  const std::int64_t room = (machine.times.linear1 + machine.times.linear2 - 1) / machine.times.linear2;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t ctas = machine.ctas - 1 - (blocks - 1 - block) * tiling.linear1_tiles.value();
    if (ctas > 0 && block * tiling.linear2_tiles.value() + 1 <= ctas * room) {
      return true;
    }
  }
  return false;
}

/// Phases are Linear-1 of the waves, and only of those that Linear-2 may wait for. Long waves come out within one tile.
TEST(MoeScheduleWork, WavesDifferByATileAndOneOfLinear1ForEachWaveThatIsTooShort) {
  int one_tile = 0;
  int several_waves = 0;
  int over_one_tile = 0;
  for_machines<ExpertWave>(1, 300, [&](const MoeCase<ExpertWave>& test, const Machine& machine, MoeRandom&) {
    const std::vector<std::int32_t> waves = blocks_of_waves(test);
    const auto short_waves = std::count_if(waves.begin(), waves.end(), [&](std::int32_t blocks) {
      return may_wait(test.schedule.tiling(), machine, blocks);
    });
    const MoeRunResult result = run(test, machine, test.blocks());
    ASSERT_EQ(result.linear1_waits, 0);
    expect_equal_work(test, machine, result, short_waves * machine.times.linear1);
    one_tile += short_waves == 0 && waves.size() > 1 && machine.ctas > 1 ? 1 : 0;
    several_waves += short_waves > 1 ? 1 : 0;
    over_one_tile += difference(result.busy) > longest_tile(machine.times) ? 1 : 0;
  });
  EXPECT_GT(one_tile, 50) << "cases of several waves where nothing waits";
  EXPECT_GT(several_waves, 100);
  EXPECT_GT(over_one_tile, 30) << "cases where waits make a difference";
}

/// Linear-1 of a wave waits for Linear-2 of waves before it: each wave has two phases. Nothing waits for the last one.
TEST(MoeScheduleWork, WavesInTheLeastRingDifferByATileAndOneOfEachKindForEachWave) {
  int linear1_waits = 0;
  for_machines<ExpertWave>(2, 300, [&](const MoeCase<ExpertWave>& test, const Machine& machine, MoeRandom&) {
    const auto waves = static_cast<std::int64_t>(blocks_of_waves(test).size());
    const MoeRunResult result = run(test, machine, test.schedule.ring_blocks());
    const std::int64_t phases = waves * (machine.times.linear1 + machine.times.linear2) - machine.times.linear2;
    expect_equal_work(test, machine, result, std::max<std::int64_t>(phases, 0));
    linear1_waits += result.linear1_waits > 0 ? 1 : 0;
  });
  EXPECT_GT(linear1_waits, 50);
}

// ---- interleaved

/// Nothing waits.
TEST(MoeScheduleWork, InterleavedWithItsLeadAndItsRingDiffersByATile) {
  int tried = 0;
  for_machines<Interleaved>(3, 300, [&](const MoeCase<Interleaved>& any, const Machine& machine, MoeRandom& random) {
    const MoeTiling& tiling = any.schedule.tiling();
    const std::int32_t lead = sufficient_lead(tiling, machine.ctas, machine.times) + random.between(0, 2);
    if (any.blocks() < 2 * lead) {
      return;
    }
    ++tried;
    const MoeCase<Interleaved> test(any.counts, tiling, lead);
    expect_equal_work(test, machine, run(test, machine, any.blocks()), 0);
    expect_equal_work(test, machine, run(test, machine, ring_without_waits(tiling, machine.ctas, machine.times, lead)),
                      0);
  });
  EXPECT_GT(tried, 100);
}

/// Linear-2 of a step waits for Linear-1 of earlier steps, of the first one for the head, of the rest for the last
/// step: the phases are the head and the steps. If Linear-1 of lead - 1 blocks keeps all other CTAs at work, only the
/// rest waits. It has no Linear-1, so that its blocks wait for one phase all together.
std::int64_t longest_wait(const MoeCase<Interleaved>& test, const Machine& machine) {
  const MoeTiling& tiling = test.schedule.tiling();
  if (test.blocks() >= 2 * test.parameter && test.parameter >= sufficient_lead(tiling, machine.ctas, machine.times)) {
    return 0;
  }
  const std::int64_t steps = std::max(test.blocks() - test.parameter, 0);
  const bool only_rest = (test.parameter - 1) * tiling.linear1_tiles.value() >= machine.ctas - 1;
  return machine.times.linear1 * (only_rest ? 1 : steps + 1);
}

TEST(MoeScheduleWork, InterleavedWithAnyLeadDiffersByATileAndOneOfLinear1ForEachStep) {
  int only_rest = 0;
  int over_one_tile = 0;
  for_machines<Interleaved>(4, 300, [&](const MoeCase<Interleaved>& test, const Machine& machine, MoeRandom&) {
    const MoeRunResult result = run(test, machine, test.blocks());
    ASSERT_EQ(result.linear1_waits, 0);
    const std::int64_t wait = longest_wait(test, machine);
    expect_equal_work(test, machine, result, wait);
    only_rest += wait == machine.times.linear1 && result.linear2_waits > 0 ? 1 : 0;
    over_one_tile += difference(result.busy) > longest_tile(machine.times) ? 1 : 0;
  });
  EXPECT_GT(only_rest, 30);
  EXPECT_GT(over_one_tile, 30) << "cases where waits make a difference";
}

/// Either kind waits for steps before its own, and phases last as long as the longest of their tiles.
TEST(MoeScheduleWork, InterleavedInTheLeastRingDiffersByATileAndAnotherForEachStep) {
  int linear1_waits = 0;
  for_machines<Interleaved>(5, 300, [&](const MoeCase<Interleaved>& test, const Machine& machine, MoeRandom&) {
    const std::int64_t steps = std::max(test.blocks() - test.parameter, 0);
    const MoeRunResult result = run(test, machine, test.schedule.ring_blocks());
    expect_equal_work(test, machine, result, machine.times.linear1 + steps * longest_tile(machine.times));
    linear1_waits += result.linear1_waits > 0 ? 1 : 0;
  });
  EXPECT_GT(linear1_waits, 50);
}

// ---- how sharp the bounds are

/// Two CTAs and experts of one block with a tile of each kind: one CTA gets all of Linear-1, the other one waits for
/// each. In one wave both get as much.
TEST(MoeScheduleWork, ShortWavesByHand) {
  const Machine machine{2, {1000, 1}};
  const std::vector<std::int32_t> counts(50, 32);
  const MoeCase<ExpertWave> waves(counts, moe_tiling(32, 1, 1), 1);
  ASSERT_TRUE(may_wait(waves.schedule.tiling(), machine, 1));
  const MoeRunResult result = run(waves, machine, waves.blocks());
  EXPECT_EQ(result.busy, (std::vector<std::int64_t>{50 * 1000, 50 * 1}));
  EXPECT_EQ(difference(run(waves, machine, waves.schedule.ring_blocks()).busy), 50 * 999);
  const MoeCase<ExpertWave> one_wave(counts, moe_tiling(32, 1, 1), 50);
  EXPECT_LE(difference(run(one_wave, machine, one_wave.blocks()).busy), 1000);
}

/// 20 waves of four blocks, and 40 of one in the least ring: with anything less the bounds would be false.
TEST(MoeScheduleWork, TheBoundsOfWavesAreReached) {
  const MoeCase<ExpertWave> fours(std::vector<std::int32_t>(40, 64), moe_tiling(32, 1, 2), 2);
  ASSERT_TRUE(may_wait(fours.schedule.tiling(), {7, {1000, 1000}}, 4));
  EXPECT_EQ(difference(run(fours, {7, {1000, 1000}}, fours.blocks()).busy), 1000 + 20 * 1000);
  const MoeCase<ExpertWave> ones(std::vector<std::int32_t>(40, 32), moe_tiling(32, 3, 3), 1);
  EXPECT_EQ(difference(run(ones, {2, {1000, 1000}}, 1).busy), 1000 + 40 * (1000 + 1000) - 1000);
}

/// A lead of one block over 80 blocks: 79 steps and the head. Waits come within a tile of their bound.
TEST(MoeScheduleWork, TheBoundsOfAShortLeadAreAlmostReached) {
  const std::vector<std::int32_t> counts(40, 64);
  const MoeCase<Interleaved> ample(counts, moe_tiling(32, 2, 4), 1);
  const MoeRunResult result = run(ample, {4, {1000, 1}}, ample.blocks());
  EXPECT_GT(*std::max_element(result.waited.begin(), result.waited.end()), 79 * 1000);
  EXPECT_GE(difference(result.busy), 79 * 1000);
  const MoeCase<Interleaved> least(counts, moe_tiling(32, 3, 4), 1);
  EXPECT_GE(difference(run(least, {4, {1000, 1000}}, 2).busy), 79 * 1000);
}

}  // namespace
}  // namespace xstage::schedule_work_test
