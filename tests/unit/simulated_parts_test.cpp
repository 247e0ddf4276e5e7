/// The parts of the simulation on cases small enough to work out by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "node/simulated/arbiter.hpp"
#include "node/simulated/links.hpp"
#include "node/simulated/placement.hpp"
#include "node/simulated/store_pipeline.hpp"
#include "node/simulated/wake_queue.hpp"

namespace xstage::simulated::simulated_parts_test {
namespace {

/// Serves `packets` packets to SMs that always have another one; counts them by SM.
std::map<int, int> serve_greedy(Arbiter& arbiter, int multiprocessors, int packets) {
  std::map<int, int> served;
  for (int multiprocessor = 0; multiprocessor < multiprocessors; ++multiprocessor) {
    arbiter.add(multiprocessor);
  }
  for (int packet = 0; packet < packets; ++packet) {
    const int multiprocessor = arbiter.take();
    ++served[multiprocessor];
    arbiter.add(multiprocessor);
  }
  return served;
}

TEST(SimulatedArbiter, EachLevelSharesEquallyAmongItsChildren) {
  // GPC 0: CPCs of 2 and 1 SMs; GPC 1: one CPC of 1 SM. Shares: 1/8, 1/8, 1/4, 1/2.
  Arbiter arbiter({{2, 1}, {1}}, 1);
  const auto served = serve_greedy(arbiter, 4, 800);
  EXPECT_EQ(served, (std::map<int, int>{{0, 100}, {1, 100}, {2, 200}, {3, 400}}));
}

TEST(SimulatedArbiter, AGrantLastsForItsPacketsWithoutChangingTheShares) {
  Arbiter arbiter({{4}}, 3);
  for (int multiprocessor = 0; multiprocessor < 4; ++multiprocessor) {
    arbiter.add(multiprocessor);
  }
  std::vector<int> order;
  for (int packet = 0; packet < 12; ++packet) {
    order.push_back(arbiter.take());
    arbiter.add(order.back());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
}

TEST(SimulatedArbiter, AnEndedGrantPassesOn) {
  Arbiter arbiter({{2}}, 3);
  arbiter.add(0);
  arbiter.add(1);
  EXPECT_EQ(arbiter.take(), 0);
  arbiter.end_grant(0);  // has nothing more
  EXPECT_EQ(arbiter.take(), 1);
  EXPECT_TRUE(arbiter.empty());
}

/// Serves the pipeline's head as soon as it arrives and returns the end of the burst's issue.
Picoseconds issue_alone(StorePipeline& pipeline, Picoseconds start, Picoseconds service, Picoseconds credit_delay) {
  pipeline.open_burst(start);
  Picoseconds end = -1;
  Picoseconds free = 0;
  do {
    if (const auto known = pipeline.advance()) {
      end = *known;
    }
    if (pipeline.has_head()) {
      free = std::max(free, pipeline.head_arrival()) + service;
      pipeline.take_head(free + credit_delay);
    }
  } while (!pipeline.drained());
  return end;
}

StorePathTiming timing_of(Picoseconds issue, Picoseconds egress, int queue, int window) {
  StorePathTiming timing;
  timing.begin = 5;
  timing.end = 3;
  timing.issue_interval = issue;
  timing.egress_interval = egress;
  timing.queue_packets = queue;
  timing.window_packets = window;
  return timing;
}

TEST(SimulatedPipeline, ABurstThatFitsIntoTheQueueIssuesAtTheIssueInterval) {
  StorePipeline pipeline(timing_of(2, 100, 8, 4), 8, 0);
  // First store at 5, seven intervals of 2, end 3 after the last: 5 + 14 + 3.
  EXPECT_EQ(issue_alone(pipeline, 0, 1000, 0), 22);
}

TEST(SimulatedPipeline, BeyondTheQueueTheEgressSetsThePace) {
  StorePipeline pipeline(timing_of(2, 100, 4, 1000), 10, 0);
  // Packet i leaves at 5 + 100 i; packet 9 enters when packet 5 leaves, at 505; end at 508.
  EXPECT_EQ(issue_alone(pipeline, 0, 1, 0), 508);
}

TEST(SimulatedPipeline, BeyondTheWindowTheCreditsSetThePace) {
  StorePipeline pipeline(timing_of(2, 2, 1, 2), 8, 10);
  // Crossbar 10, service 50 each, credit 7 later: packet i is served by 65 + 50 i and its place is free at 72 + 50 i.
  // Packet 6 leaves the queue with the credit of packet 4, at 272, and then packet 7 enters; end at 275.
  EXPECT_EQ(issue_alone(pipeline, 0, 50, 7), 275);
}

TEST(SimulatedPipeline, WithoutAQueueTheBurstEndsWhenItsLastPacketLeaves) {
  StorePipeline pipeline(timing_of(0, 20, 0, 1000), 5, 0);
  EXPECT_EQ(issue_alone(pipeline, 100, 1, 0), 100 + 5 + 4 * 20 + 3);
}

TEST(SimulatedPipeline, ASecondBurstQueuesBehindTheFirst) {
  StorePipeline pipeline(timing_of(1, 100, 2, 1000), 2, 0);
  EXPECT_EQ(issue_alone(pipeline, 0, 1, 0), 9);
  // The first burst's packets leave at 5 and 105: of the second, packet 2 enters at 15, and packet 3 when packet 1 has
  // left, at 105.
  EXPECT_EQ(issue_alone(pipeline, 10, 1, 0), 108);
  EXPECT_EQ(pipeline.packets_taken(), 4);
}

TEST(SimulatedLinks, ABundleIsAsFastAsItsLinksTogether) {
  Links links(4);
  Picoseconds done = 0;
  for (int packet = 0; packet < 40; ++packet) {
    done = links.send(0, 100);
  }
  EXPECT_EQ(done, 1000);
}

TEST(SimulatedPipeline, TheEndIsToldOnce) {
  StorePipeline pipeline(timing_of(2, 100, 4, 1000), 10, 0);
  pipeline.open_burst(0);
  // Packet 9 enters when packet 5 leaves, at 505.
  EXPECT_EQ(pipeline.advance(), 508);
  EXPECT_FALSE(pipeline.advance().has_value());
}

TEST(SimulatedLinks, AQueueHoldsWhatHasNotStarted) {
  FabricQueue queue(2);
  EXPECT_EQ(queue.ready_at(), 0);
  queue.put(10);
  queue.put(40);
  EXPECT_EQ(queue.ready_at(), 10);  // the third finds a place when the first starts
  queue.put(70);
  EXPECT_EQ(queue.ready_at(), 40);
}

TEST(SimulatedLinks, CreditsBoundWhatIsUnacknowledged) {
  FabricCredits credits(2);
  EXPECT_EQ(credits.ready_at(), 0);
  credits.spend(70);
  EXPECT_EQ(credits.ready_at(), 0);
  credits.spend(90);
  EXPECT_EQ(credits.ready_at(), 70);  // the third waits for the first acknowledgement
}

TEST(SimulatedWakeQueue, MergesBothKindsInTime) {
  WakeQueue queue(4);
  queue.push(30, 0);
  queue.push_in_order(10, 1);
  queue.push(20, 2);
  queue.push_in_order(40, 3);
  EXPECT_EQ(queue.next_time(), 10);
  std::set<int> woken;
  queue.pop_due(30, [&](int multiprocessor) { woken.insert(multiprocessor); });
  EXPECT_EQ(woken, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(queue.next_time(), 40);
  queue.pop_due(40, [](int) {});
  EXPECT_EQ(queue.next_time(), never);
}

TEST(SimulatedPlacement, EverySmOnceAndEmptyTpcsFirst) {
  const SimulatedHardware hardware = simulated_preset("h200x2");
  const auto all = place_producers(hardware, 132);
  const std::set<int> used(all.begin(), all.end());
  EXPECT_EQ(used.size(), 132u);
  EXPECT_EQ(*used.begin(), 0);
  EXPECT_EQ(*used.rbegin(), 131);

  std::set<int> tpcs;
  for (const int multiprocessor : place_producers(hardware, 66)) {
    tpcs.insert(multiprocessor / 2);
  }
  EXPECT_EQ(tpcs.size(), 66u);
}

TEST(SimulatedPlacement, OddCpcsHaveATpcOfOneSm) {
  SimulatedHardware hardware = simulated_preset("h200x2");
  hardware.multiprocessors = {{3, 1}, {2}};
  const auto all = place_producers(hardware, 6);
  EXPECT_EQ(std::set<int>(all.begin(), all.end()), (std::set<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace xstage::simulated::simulated_parts_test
