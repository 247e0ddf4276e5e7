#pragma once
// What the GPU tests share of injected delays: sleeps at random places.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "xstage/instruments.hpp"

namespace xstage::gpu_test {

inline constexpr std::uint32_t longest_delay_ns = 20000;

/// Other places on each rank and in each call.
inline std::uint32_t delay_seed(std::uint32_t call, int rank) { return call * 8U + static_cast<std::uint32_t>(rank); }

/// Sleeps of all ranks in the next call.
template <class Ranks>
void delay(Ranks& ranks, std::uint32_t call) {
  for (int rank = 0; rank < ranks.count(); ++rank) {
    Instruments instruments;
    instruments.longest_delay_ns = longest_delay_ns;
    instruments.delay_seed = delay_seed(call, rank);
    ranks[rank].instrument(instruments);
  }
}

/// Results are deterministic: with sleeps at random places they have the same bits as without, which are right. Each
/// round is several calls back to back with different operands, so that a store that is early or late meets other
/// numbers. all_bits(which, call): those of a call's results on all ranks.
template <class Case, class Call, class Ranks>
void expect_right_in_spite_of_delays(const Case& which, Ranks& ranks,
                                     std::vector<std::uint16_t> (*all_bits)(const Case&, const Call&)) {
  constexpr std::uint32_t calls = 4;
  constexpr std::uint32_t rounds = 50;
  std::vector<Call> all;
  std::vector<std::vector<std::uint16_t>> right;
  for (std::uint32_t call = 0; call < calls; ++call) {
    all.emplace_back(which, ranks.devices(), call);
    ranks.enqueue(all.back());
    ranks.finish();
    ASSERT_EQ(complaint_about(which, all.back()), "");
    right.push_back(all_bits(which, all.back()));
    all.back().poison();
  }
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::uint32_t call = 0; call < calls; ++call) {
      delay(ranks, round * calls + call);
      ranks.enqueue(all[call]);
    }
    ranks.finish();
    for (std::size_t call = 0; call < calls; ++call) {
      ASSERT_TRUE(all_bits(which, all[call]) == right[call]) << "round " << round << ", call " << call;
      all[call].poison();
    }
  }
}

}  // namespace xstage::gpu_test
