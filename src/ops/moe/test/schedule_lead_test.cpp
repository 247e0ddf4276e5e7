// The lead that Linear-1 needs: at the knee no tile of Linear-2 waits, below it some do, as a simulated run of CTAs
// shows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/moe/lead.hpp"
#include "ops/moe/test/schedule_run.hpp"

namespace xstage::schedule_lead_test {
namespace {

using schedule::Interleaved;
using schedule::MoeLinear;
using schedule::MoeTile;
using schedule::MoeTileTimes;
using schedule::MoeTiling;

struct Setting {
  MoeTiling tiling;
  std::int32_t ctas;
  MoeTileTimes times;
  std::int32_t blocks;
};

testing::Message describe(const Setting& setting) {
  return testing::Message() << setting.ctas << " CTAs, " << setting.blocks << " blocks of "
                            << setting.tiling.linear1_tiles.value() << " and " << setting.tiling.linear2_tiles.value()
                            << " tiles that last " << setting.times.linear1 << " and " << setting.times.linear2;
}

MoeRunResult run(const Setting& setting, const std::vector<std::int32_t>& counts, std::int32_t lead,
                 std::int32_t ring) {
  const MoeCase<Interleaved> test(counts, setting.tiling, lead);
  const auto duration = [&](std::size_t, const MoeTile& tile) {
    return tile.linear == MoeLinear::one ? setting.times.linear1 : setting.times.linear2;
  };
  return MoeRun<Interleaved>(test.schedule, setting.ctas, ring, MoeClaims::drawn, duration).run();
}

/// With all blocks of one expert.
MoeRunResult run(const Setting& setting, std::int32_t lead, std::int32_t ring) {
  return run(setting, {setting.blocks * setting.tiling.block_rows}, lead, ring);
}

/// Settings in which Linear-2 is far shorter than Linear-1, as short, or longer, with few long columns or many.
Setting random_setting(MoeRandom& random) {
  Setting setting{};
  const std::int32_t linear1 = random.between(1, 32);
  setting.tiling = moe_tiling(128, linear1, random.between(1, 40));
  setting.ctas = random.between(1, 200);
  const int kind = random.between(0, 3);
  const std::int64_t unit = random.between(50, 1000);
  setting.times = {kind == 0 ? unit : random.between(50, 1000), kind == 0 ? unit : random.between(50, 1000)};
  const std::int32_t sufficient = sufficient_lead(setting.tiling, setting.ctas, setting.times);
  setting.blocks = 2 * sufficient + random.between(0, 20);
  return setting;
}

template <typename Check>
void for_random_settings(std::uint32_t seed, int rounds, Check&& check) {
  MoeRandom random(seed);
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const Setting setting = random_setting(random);
    if (setting.blocks * setting.tiling.block_tiles.value() > 20000) {
      continue;  // long, and no other
    }
    SCOPED_TRACE(describe(setting));
    check(setting);
  }
}

TEST(MoeScheduleLead, Linear2WaitsBelowTheKneeAndNotAtIt) {
  int below = 0;
  int inside = 0;
  for_random_settings(1, 150, [&](const Setting& setting) {
    const std::int32_t knee = lead_knee(setting.tiling, setting.ctas, setting.times, setting.blocks);
    const std::int32_t sufficient = sufficient_lead(setting.tiling, setting.ctas, setting.times);
    const std::int32_t necessary = necessary_lead(setting.tiling, setting.ctas);
    ASSERT_LE(necessary, knee);
    ASSERT_LE(knee, sufficient);
    ASSERT_EQ(run(setting, knee, setting.blocks).linear2_waits, 0) << "at lead " << knee;
    if (knee > 1) {
      ++below;
      ASSERT_GT(run(setting, knee - 1, setting.blocks).linear2_waits, 0) << "at lead " << knee - 1;
    }
    inside += necessary < knee && knee < sufficient ? 1 : 0;
  });
  EXPECT_GT(below, 50);
  EXPECT_GT(inside, 20) << "settings whose knee neither formula gives";
}

TEST(MoeScheduleLead, Linear2WaitsWithLessThanTheNecessaryLead) {
  for_random_settings(2, 100, [](const Setting& setting) {
    for (std::int32_t lead = necessary_lead(setting.tiling, setting.ctas) - 1; lead >= 1; lead -= 1 + lead / 2) {
      ASSERT_GT(run(setting, lead, setting.blocks).linear2_waits, 0) << "at lead " << lead;
    }
  });
}

TEST(MoeScheduleLead, NothingWaitsWithTheSufficientLeadAndItsRing) {
  for_random_settings(3, 100, [](const Setting& setting) {
    const std::int32_t sufficient = sufficient_lead(setting.tiling, setting.ctas, setting.times);
    for (const std::int32_t lead : {sufficient, sufficient + 1, sufficient + 5}) {
      Setting longer = setting;
      longer.blocks = std::max(setting.blocks, 2 * lead);
      const std::int32_t ring = ring_without_waits(setting.tiling, setting.ctas, setting.times, lead);
      const MoeRunResult result = run(longer, lead, ring);
      ASSERT_TRUE(result.finished);
      ASSERT_EQ(result.linear2_waits, 0) << "at lead " << lead;
      ASSERT_EQ(result.linear1_waits, 0) << "at lead " << lead << " with a ring of " << ring;
      ASSERT_LE(result.most_alive, ring);
    }
  });
}

// ---- several experts
//
// Blocks are numbered through all experts and a tile lasts as long however few of its rows have tokens: experts change
// nothing but the number of blocks. What they change is whether there are enough of them.

/// Calls `check(setting, counts)` for counts of either kind with at most 400 blocks.
template <typename Check>
void for_settings_over_counts(std::uint32_t seed, int rounds, Check&& check) {
  for_counts(seed, rounds, 6000, [&](const std::vector<std::int32_t>& counts, MoeRandom& random) {
    Setting setting{};
    const std::int32_t linear1 = random.between(1, 16);
    setting.tiling = moe_tiling(32, linear1, random.between(1, 20));
    setting.ctas = random.between(1, 80);
    setting.times = {random.between(50, 1000), random.between(50, 1000)};
    for (const std::int32_t count : counts) {
      setting.blocks += schedule::moe_blocks(count, 32);
    }
    if (setting.blocks > 0 && setting.blocks <= 400) {
      SCOPED_TRACE(describe(setting));
      check(setting, counts);
    }
  });
}

/// Tests each lead from below the necessary one to above the sufficient one. At the knee and above it nothing waits
/// with the ring of that lead; just below the knee, and below the necessary lead, Linear-2 waits. Between these two
/// leads no tile may happen to wait, when starts of tiles of unequal durations fall well, and one block of lead more
/// may wait again: the simulation and the search for the knee must agree there, too.
TEST(MoeScheduleLead, EachLeadBetweenTheNecessaryAndTheSufficientOneOverRoutings) {
  int several_experts = 0;
  int inside = 0;
  int waits_above_necessary = 0;
  int luck = 0;
  for_settings_over_counts(4, 150, [&](const Setting& setting, const std::vector<std::int32_t>& counts) {
    const std::int32_t sufficient = sufficient_lead(setting.tiling, setting.ctas, setting.times);
    if (setting.blocks < 2 * sufficient) {
      return;
    }
    const std::int32_t necessary = necessary_lead(setting.tiling, setting.ctas);
    const std::int32_t knee = lead_knee(setting.tiling, setting.ctas, setting.times, setting.blocks);
    several_experts += std::count_if(counts.begin(), counts.end(), [](std::int32_t count) { return count > 0; }) > 1;
    inside += necessary < knee && knee < sufficient ? 1 : 0;
    for (std::int32_t lead = std::max(necessary - 1, 1); lead <= sufficient + 1; ++lead) {
      const std::int64_t waits = run(setting, counts, lead, setting.blocks).linear2_waits;
      ASSERT_EQ(waits == 0, linear2_never_waits(setting.tiling, setting.ctas, setting.times, lead, setting.blocks))
          << "at lead " << lead;
      if (lead >= knee) {
        const std::int32_t ring = ring_without_waits(setting.tiling, setting.ctas, setting.times, lead);
        const MoeRunResult in_its_ring = run(setting, counts, lead, ring);
        ASSERT_EQ(waits, 0) << "at lead " << lead << ", knee " << knee;
        ASSERT_EQ(in_its_ring.linear1_waits + in_its_ring.linear2_waits, 0) << "at lead " << lead;
      } else if (lead == knee - 1 || lead < necessary) {
        ASSERT_GT(waits, 0) << "at lead " << lead << ", knee " << knee;
      } else {
        (waits > 0 ? waits_above_necessary : luck) += 1;
      }
    }
  });
  EXPECT_GT(several_experts, 50);
  EXPECT_GT(inside, 20) << "settings whose knee neither formula gives";
  EXPECT_GT(luck, 0) << "leads below the knee without waits";
  EXPECT_GT(waits_above_necessary, 10 * luck);
}

/// With fewer blocks than twice the lead, some blocks have Linear-1 in the head and Linear-2 in the rest, with fewer
/// blocks between the two than the lead asks for. Linear-2 may then wait with the sufficient lead, and with any lead if
/// there is only one block.
TEST(MoeScheduleLead, NoLeadIsSufficientForFewBlocks) {
  int waits = 0;
  int none = 0;
  for_settings_over_counts(5, 150, [&](const Setting& setting, const std::vector<std::int32_t>& counts) {
    const std::int32_t sufficient = sufficient_lead(setting.tiling, setting.ctas, setting.times);
    if (setting.blocks < 2 * sufficient) {
      (run(setting, counts, sufficient, setting.blocks).linear2_waits > 0 ? waits : none) += 1;
    }
  });
  EXPECT_GT(waits, 20);
  EXPECT_GT(none, 20);
  // Two CTAs, and one block with a tile of each kind: the CTA that draws Linear-2 has to wait for the other one.
  const Setting one_block{moe_tiling(128, 1, 1), 2, {5, 5}, 1};
  for (const std::int32_t lead : {1, 2, 10}) {
    EXPECT_EQ(run(one_block, {0, 7, 0}, lead, 1).linear2_waits, 1) << "at lead " << lead;
  }
}

// ---- by hand

/// Tiles of one duration run in rounds of all CTAs, so that Linear-2 of a block must lie in a later round.
TEST(MoeScheduleLead, TilesOfOneDurationByHand) {
  const MoeTileTimes same{1, 1};
  // One CTA: everything before is done.
  EXPECT_EQ(schedule::lead_knee(moe_tiling(128, 16, 28), 1, same, 100), 1);
  // Four CTAs, blocks of 4 and 4 tiles, lead 1: 1111 | 1212 | 1212 | ... The first Linear-2 is in round 1.
  EXPECT_EQ(schedule::necessary_lead(moe_tiling(128, 4, 4), 4), 1);
  // Eight: 1111 1212 | would have it in round 0, 1111 1111 | 1212 has not.
  EXPECT_EQ(schedule::lead_knee(moe_tiling(128, 4, 4), 8, same, 100), 2);
  // 132 CTAs, 16 tiles a block: 8.25 blocks in the first round, and one tile of Linear-1 before step 0's first other.
  EXPECT_EQ(schedule::necessary_lead(moe_tiling(128, 16, 28), 132), 9);
  EXPECT_EQ(schedule::lead_knee(moe_tiling(128, 16, 28), 132, same, 200), 9);
  EXPECT_EQ(schedule::sufficient_lead(moe_tiling(128, 16, 28), 132, same), 10);
}

/// Tiles of DeepSeek-V3 on an H200, where Linear-2 has two sevenths of Linear-1's K. The knee is determined by the end,
/// where blocks of Linear-2 alone follow each other.
TEST(MoeScheduleLead, ShortTilesOfLinear2NeedMore) {
  const Setting setting{moe_tiling(128, 16, 28), 132, {7168, 2048}, 200};
  const std::int32_t knee = lead_knee(setting.tiling, setting.ctas, setting.times, setting.blocks);
  EXPECT_EQ(knee, 13);
  EXPECT_EQ(schedule::sufficient_lead(setting.tiling, setting.ctas, setting.times), 20);
  EXPECT_EQ(run(setting, knee, setting.blocks).linear2_waits, 0);
  EXPECT_GT(run(setting, knee - 1, setting.blocks).linear2_waits, 0);
}

}  // namespace
}  // namespace xstage::schedule_lead_test
