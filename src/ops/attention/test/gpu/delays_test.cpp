// Attention with its instruments on: random sleeps change no bit of a result, and recorded spans are physically
// possible.

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "fabric/span_record.hpp"
#include "gpu/delay_support.hpp"
#include "ops/attention/test/gpu/reference.hpp"
#include "ops/attention/test/gpu/support.hpp"
#include "xstage/gemm.hpp"
#include "xstage/trace.hpp"

namespace xstage::delays_test {
namespace {

using attention::Destination;
using attention_test::all_bits;
using attention_test::Call;
using attention_test::Case;
using attention_test::complaint_about;
using attention_test::make_case;
using attention_test::make_problem;
using attention_test::Ranks;

constexpr int virtual_world = 4;

std::vector<int> virtual_ranks() { return std::vector<int>(virtual_world, 0); }

/// Few CTAs with several tiles each, and rows that change their owner within tiles. Of the 18 tiles two are left over
/// from the rounds of four CTAs.
Case case_for_delays(int world, StorePath store_path, int split, bool causal, int head_dim) {
  attention::Problem problem = make_problem(Destination::to_owners, world, 450, causal ? 450 : 700, 3, 1, head_dim);
  problem.sequences = 2;
  problem.causal = causal;
  attention::Plan plan;
  plan.store_path = store_path;
  plan.split = split;
  plan.issuers = 4;
  return make_case(problem, world, plan);
}

/// Both store paths, tiles dealt out, shared and drawn.
std::vector<Case> cases_for_delays(int world) {
  return {case_for_delays(world, StorePath::bulk, 0, false, 128), case_for_delays(world, StorePath::bulk, 1, false, 64),
          case_for_delays(world, StorePath::store16, 1, false, 128),
          case_for_delays(world, StorePath::bulk, 0, true, 128),
          case_for_delays(world, StorePath::store16, 0, true, 64)};
}

void expect_right_in_spite_of_delays(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  gpu_test::expect_right_in_spite_of_delays(which, ranks, all_bits);
  EXPECT_TRUE(ranks.guards_are_untouched());
}

TEST(AttentionToOwners, DelaysBetweenVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Case& which : cases_for_delays(virtual_world)) {
    expect_right_in_spite_of_delays(which, virtual_ranks());
  }
}

TEST(AttentionToOwners, DelaysBetweenTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Case& which : cases_for_delays(2)) {
    expect_right_in_spite_of_delays(which, {0, 1});
  }
}

// ---- spans
// -----------------------------------------------------------------------------------------------------------

/// One call that is recorded on all ranks; the results are right all the same.
trace::Trace recorded_call(const Case& which, const std::vector<int>& devices) {
  constexpr int spans_each = 256;
  Ranks ranks(which, devices);
  std::vector<HeapRank*> heap_ranks;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    heap_ranks.push_back(&ranks.heap().rank(rank));
  }
  trace::SpanRecorder recorder(heap_ranks, ranks[0].issuers(), spans_each);
  for (int rank = 0; rank < ranks.count(); ++rank) {
    attention::Instruments instruments;
    instruments.spans = recorder.instruments(rank).spans;
    instruments.spans_each = recorder.instruments(rank).spans_each;
    ranks[rank].instrument(instruments);
  }
  const Call call(which, devices, 1);
  ranks.enqueue(call);
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "");
  trace::Trace trace = recorder.read();
  for (int rank = 0; rank < ranks.count(); ++rank) {
    ranks[rank].instrument({});
  }
  recorder.clear();
  ranks.enqueue(call);
  ranks.finish();
  EXPECT_TRUE(recorder.read().spans.empty()) << "a call without instruments has recorded something";
  return trace;
}

void expect_sane_spans(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  const trace::Trace trace = recorded_call(which, devices);
  EXPECT_EQ(trace.full_tracks, 0);
  std::set<std::pair<int, int>> seen;  // rank, kind
  for (const trace::Span& span : trace.spans) {
    EXPECT_GE(span.end_ns, span.begin_ns);
    EXPECT_TRUE(span.rank >= 0 && span.rank < which.ranks) << span.rank;
    EXPECT_TRUE(span.block >= 0 && span.block < which.plan.issuers) << span.block;
    EXPECT_TRUE(span.role >= 0 && span.role < kernels::span_roles) << span.role;
    EXPECT_GE(span.tile, -1);
    seen.emplace(span.rank, span.kind);
  }
  for (int rank = 0; rank < which.ranks; ++rank) {
    for (const kernels::SpanKind kind : {kernels::SpanKind::main_loop, kernels::SpanKind::store_tile}) {
      EXPECT_EQ(seen.count({rank, static_cast<int>(kind)}), 1U)
          << "rank " << rank << ", kind " << static_cast<int>(kind);
    }
  }
}

TEST(AttentionToOwners, SpansOfVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Case& which : cases_for_delays(virtual_world)) {
    expect_sane_spans(which, virtual_ranks());
  }
}

TEST(AttentionToOwners, SpansOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Case& which : cases_for_delays(2)) {
    expect_sane_spans(which, {0, 1});
  }
}

/// Instruments of a rank of its own, in the kernel that is not that of virtual ranks.
TEST(Attention, SpansOfOneRank) {
  SKIP_WITHOUT_HOPPER(1);
  attention::Problem problem = make_problem(Destination::local, 1, 900, 900, 4, 2);
  expect_sane_spans(make_case(problem, 1), {0});
  problem.causal = true;
  expect_sane_spans(make_case(problem, 1), {0});
}

}  // namespace
}  // namespace xstage::delays_test
