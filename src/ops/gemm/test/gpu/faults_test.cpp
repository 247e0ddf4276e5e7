// Faults of a fused GEMM: peers that never arrive or arrive late, ranks that disagree, operands and heaps that break a
// rule. Nothing hangs, errors say what happened, and after reset() the next call is right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fabric/call_parameters.hpp"
#include "gpu/call_support.hpp"
#include "gpu/fault_support.hpp"
#include "ops/gemm/layout.hpp"
#include "ops/gemm/test/gpu/reference.hpp"
#include "ops/gemm/test/gpu/support.hpp"
#include "xstage/error.hpp"

namespace xstage::faults_test {
namespace {

using namespace std::chrono_literals;

using gemm::Operation;
using gemm_test::Call;
using gemm_test::Case;
using gemm_test::complaint_about;
using gemm_test::FusedOperation;
using gemm_test::make_case;
using gemm_test::make_heads;
using gemm_test::make_problem;
using gemm_test::Ranks;
using gpu_test::complaint;
using gpu_test::enter_first_call;
using gpu_test::expect_every_rank_that_waits_is_told;
using gpu_test::expect_names_the_missing_peer;
using gpu_test::expect_refusal_without_all_ranks;
using gpu_test::expect_right_when_a_rank_runs_ahead;
using gpu_test::expect_right_whoever_is_late;
using gpu_test::expect_too_small;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr auto time_out = 200ms;

/// One CTA of each rank, so that it meets its waits one after the other.
Case small_case(const FusedOperation& fused, int world) {
  const Operation operation = fused.operation;
  Plan plan;
  plan.tile_columns = 128;
  plan.cluster_rows = 1;
  plan.issuers = 1;
  plan.all_reduce = fused.all_reduce;
  const auto problem = operation == Operation::all_to_all ? make_heads(200, world, 128, 72)
                                                          : make_problem(operation, 200, 136 * world, 72 * world);
  return make_case(problem, world, plan);
}

/// The place of a call's first wait if the peer has not entered the call. A one-shot exchange may send before that,
/// into the slots of the call before the last, which the peer has left.
const char* first_wait(const FusedOperation& fused) {
  if (fused.operation == Operation::all_gather) {
    return "gathered chunk";
  }
  return fused.exchanges() ? "partial tile" : "peer entry";
}

std::string name_of(const testing::TestParamInfo<FusedOperation>& info) { return info.param.name(); }

class GemmFaults : public testing::TestWithParam<FusedOperation> {};
INSTANTIATE_TEST_SUITE_P(All, GemmFaults, testing::ValuesIn(gemm_test::fused_operations), name_of);

void expect_right_call(const Case& which, Ranks& ranks, std::uint64_t seed) {
  gpu_test::expect_right_call<Call>(which, ranks, seed);
}

// ---- peers that never come
// -------------------------------------------------------------------------------------------

/// Rank 0 alone: what check() says, the first time and again.
std::string complaint_of_lonely_rank(const Case& which, Ranks& ranks) {
  const Call call(which, ranks.devices(), 99);
  const std::string said = gpu_test::complaint_of_lonely_rank(ranks, call, time_out);
  EXPECT_EQ(complaint<DeviceError>([&] { ranks[0].check(); }), said);
  return said;
}

void expect_recovery_from_a_missing_peer(const FusedOperation& fused, const std::vector<int>& devices,
                                         int calls_before) {
  const Case which = small_case(fused, 2);
  Ranks ranks(which, devices, time_out);
  for (int call = 0; call < calls_before; ++call) {
    expect_right_call(which, ranks, static_cast<std::uint64_t>(call));
  }
  const std::string said = complaint_of_lonely_rank(which, ranks);
  EXPECT_THAT(said, HasSubstr(gemm::operation_name(fused.operation)));
  expect_names_the_missing_peer(said, calls_before + 1, first_wait(fused));
  if (fused.operation != Operation::all_gather) {
    EXPECT_THAT(said, HasSubstr("launched on every rank, in the same order?"));
  }
  Gemm::reset(ranks.handles());
  EXPECT_NO_THROW(ranks[0].check());
  expect_right_call(which, ranks, 50);
  expect_right_call(which, ranks, 51);
}

TEST_P(GemmFaults, APeerThatNeverComesOnOneGpu) {
  SKIP_WITHOUT_HOPPER(1);
  expect_recovery_from_a_missing_peer(GetParam(), {0, 0}, 0);
  expect_recovery_from_a_missing_peer(GetParam(), {0, 0}, 3);
}

TEST_P(GemmFaults, APeerThatNeverComesOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  expect_recovery_from_a_missing_peer(GetParam(), {0, 1}, 0);
  expect_recovery_from_a_missing_peer(GetParam(), {0, 1}, 3);
}

/// With all CTAs active any of them may be the first to give up, at any of its waits.
TEST_P(GemmFaults, APeerThatNeverComesWithAllCtas) {
  SKIP_WITHOUT_HOPPER(2);
  const auto problem = GetParam().operation == Operation::all_to_all
                           ? make_heads(3000, 8, 128, 200)
                           : make_problem(GetParam().operation, 3000, 3072, 400);
  const Case which = make_case(problem, 2, GetParam().all_reduce);
  Ranks ranks(which, {0, 1}, time_out);
  expect_right_call(which, ranks, 1);
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks), ContainsRegex("rank 0 waited [0-9]+ us for rank 1 in call 2"));
  Gemm::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
  expect_right_call(which, ranks, 3);
}

/// One of three ranks is missing: the first rank that gives up signals the others.
TEST_P(GemmFaults, EveryRankThatWaitsIsTold) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(GetParam(), 3);
  Ranks ranks(which, {0, 0, 0}, time_out);
  const Call call(which, ranks.devices(), 1);
  expect_every_rank_that_waits_is_told(ranks, call, time_out);
  Gemm::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
}

/// The peer entered the call and was not heard of again.
TEST_P(GemmFaults, APeerThatDiesInTheMiddle) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(GetParam(), 2);
  Ranks ranks(which, {0, 0}, time_out);
  auto* pad = reinterpret_cast<std::uint32_t*>(ranks.heap().rank(0).local(ranks.signals()));
  ASSERT_NO_FATAL_FAILURE(enter_first_call(pad + kernels::CallPad::entered + kernels::CallPad::line));
  const char* site = GetParam().operation == Operation::all_gather   ? "gathered chunk"
                     : GetParam().operation == Operation::all_to_all ? "peer done"
                                                                     : "partial tile";
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks),
              ContainsRegex(std::string("rank 0 waited [0-9]+ us for rank 1 in call 1 and gave up: ") + site));
  Gemm::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
}

// ---- peers that come late
// --------------------------------------------------------------------------------------------

TEST_P(GemmFaults, APeerThatComesLate) {
  SKIP_WITHOUT_HOPPER(2);
  const auto problem = GetParam().operation == Operation::all_to_all
                           ? make_heads(1000, 4, 128, 200)
                           : make_problem(GetParam().operation, 1000, 1040, 400);
  const Case which = make_case(problem, 2, GetParam().all_reduce);
  Ranks ranks(which, {0, 1});
  expect_right_whoever_is_late<Call>(which, ranks);
}

/// One rank is several calls ahead; the other follows.
TEST_P(GemmFaults, ARankThatRunsAhead) {
  SKIP_WITHOUT_HOPPER(2);
  const Case which = small_case(GetParam(), 2);
  Ranks ranks(which, {0, 1});
  expect_right_when_a_rank_runs_ahead<Call>(which, ranks);
}

// ---- copies that nothing holds back

/// Rank 1 sleeps in call 1. Meanwhile the gate of rank 0 gives up in call 2 and its copies still run, over rows that
/// rank 1 still reads: rank 1 must not treat its call as valid.
TEST(GemmFaults, ALateCallThatCopiesMayHaveReachedIsVoid) {
  SKIP_WITHOUT_HOPPER(2);
  Plan plan;
  plan.gather = GatherPath::copy_engine;
  const Case which = make_case(make_problem(Operation::all_gather, 256, 256, 131072), 2, plan);
  Ranks ranks(which, {0, 1}, time_out);
  const Call call(which, ranks.devices(), 1);
  gemm::Instruments asleep;
  asleep.longest_delay_ns = 1'000'000'000;  // one of four stages sleeps, each a millisecond at most: half a second
  ranks[1].instrument(asleep);
  ranks.launch_rank(call, 1);
  ranks.launch_rank(call, 0);
  ranks.launch_rank(call, 0);
  ranks.wait();
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[0].check(); }), ContainsRegex("for rank 1 in call 2 and gave up"));
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[1].check(); }), HasSubstr("in call 1"));
  ranks[1].instrument({});
  Gemm::reset(ranks.handles());
  EXPECT_NO_THROW(ranks[0].check());
  EXPECT_NO_THROW(ranks[1].check());
}

// ---- ranks that disagree
// ---------------------------------------------------------------------------------------------

TEST(GemmRefusals, RanksThatDisagreeAreNamedWithBothShapes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case({Operation::reduce_scatter}, 2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  Gemm first(heap.rank(0), which.cell.problem, which.plan);
  const auto refusal_of = [&](const std::function<void(gemm::Problem&, Plan&)>& change) {
    gemm::Problem problem = which.cell.problem;
    Plan plan = which.plan;
    change(problem, plan);
    return complaint<InputError>([&] { const Gemm other(heap.rank(1), problem, plan); });
  };
  EXPECT_THAT(refusal_of([](gemm::Problem& problem, Plan&) { problem.m = 208; }),
              AllOf(HasSubstr("rank 1"), HasSubstr("m=208"), HasSubstr("rank 0"), HasSubstr("m=200")));
  EXPECT_THAT(refusal_of([](gemm::Problem& problem, Plan&) { problem.n = 280; }),
              AllOf(HasSubstr("n=280"), HasSubstr("n=272")));
  EXPECT_THAT(refusal_of([](gemm::Problem& problem, Plan&) { problem.k = 160; }),
              AllOf(HasSubstr("k=160"), HasSubstr("k=144")));
  EXPECT_THAT(refusal_of([](gemm::Problem& problem, Plan&) { problem.operation = Operation::all_reduce; }),
              AllOf(HasSubstr("gemm_all_reduce"), HasSubstr("gemm_reduce_scatter")));
  EXPECT_THAT(refusal_of([](gemm::Problem&, Plan& plan) { plan.tile_columns = 64; }),
              AllOf(HasSubstr("tile_columns=64"), HasSubstr("tile_columns=128")));
  // The rank stayed where it was: with the right shapes it joins.
  Gemm second(heap.rank(1), which.cell.problem, which.plan);
  const Call call(which, {0, 0}, 1);
  const std::vector<Gemm*> handles{&first, &second};
  const std::vector<gemm::Operands> operands{call.operands(0), call.operands(1)};
  Gemm::launch_together(handles, operands, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(complaint_about(which, call), "");
}

TEST(GemmRefusals, ALaunchBeforeAllRanksAreMade) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case({Operation::reduce_scatter}, 2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  Gemm first(heap.rank(0), which.cell.problem, which.plan);
  const Call call(which, {0, 0}, 1);
  EXPECT_THAT(complaint<InputError>([&] { first.launch(call.operands(0), nullptr); }), HasSubstr("rank 1 has made"));
}

// ---- heaps, problems and operands that break a rule
// ------------------------------------------------------------------

TEST(GemmRefusals, AHeapThatIsTooSmall) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Operation operation :
       {Operation::reduce_scatter, Operation::all_gather, Operation::all_reduce, Operation::all_to_all}) {
    const Case which = small_case({operation}, 2);
    const std::size_t bytes = gemm::heap_bytes(which.cell.problem, which.plan, 2) - HeapRank::default_alignment;
    SCOPED_TRACE(gemm::operation_name(operation));
    expect_too_small(bytes, std::string(gemm::operation_name(operation)),
                     [&](HeapRank& heap) { const Gemm refused(heap, which.cell.problem, which.plan); });
  }
}

TEST(GemmRefusals, AProblemThatBreaksARule) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case({Operation::reduce_scatter}, 2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  gemm::Problem problem = which.cell.problem;
  problem.k = 152;
  EXPECT_THAT(complaint<InputError>([&] { const Gemm refused(heap.rank(0), problem, which.plan); }),
              AllOf(HasSubstr("k is 152: it must be a multiple of 16"), HasSubstr("2 ranks share it")));
  problem = which.cell.problem;
  problem.m = 0;
  EXPECT_THAT(complaint<InputError>([&] { const Gemm refused(heap.rank(0), problem, which.plan); }),
              HasSubstr("m is 0"));
  Plan plan = which.plan;
  plan.tile_columns = 96;
  EXPECT_THAT(complaint<InputError>([&] { const Gemm refused(heap.rank(0), which.cell.problem, plan); }),
              HasSubstr("tile_columns is 96"));
  EXPECT_EQ(heap.rank(0).steps(), 0U) << "a refused rank has taken a step";
}

/// Each operand in turn null and off by 8 bytes; nothing is enqueued, and the next call is right.
TEST(GemmRefusals, OperandsThatBreakARule) {
  SKIP_WITHOUT_HOPPER(1);
  gemm::Problem problem = make_problem(Operation::gemm, 200, 136, 72);
  problem.bias = true;
  const Case which = make_case(problem, 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  const auto refusal_of = [&](const std::function<void(gemm::Operands&)>& change) {
    gemm::Operands operands = call.operands(0);
    change(operands);
    return complaint<InputError>([&] { ranks[0].launch(operands, ranks.stream(0)); });
  };
  const auto shifted = [](const void* pointer) { return static_cast<const char*>(pointer) + 8; };
  EXPECT_THAT(refusal_of([](gemm::Operands& operands) { operands.a = nullptr; }), HasSubstr("operand a is null"));
  EXPECT_THAT(refusal_of([](gemm::Operands& operands) { operands.b = nullptr; }), HasSubstr("operand b is null"));
  EXPECT_THAT(refusal_of([](gemm::Operands& operands) { operands.output = nullptr; }),
              HasSubstr("operand output is null"));
  EXPECT_THAT(refusal_of([](gemm::Operands& operands) { operands.bias = nullptr; }), HasSubstr("operand bias is null"));
  EXPECT_THAT(refusal_of([&](gemm::Operands& operands) { operands.a = shifted(operands.a); }),
              AllOf(HasSubstr("operand a is at 0x"), HasSubstr("aligned to 16 bytes")));
  EXPECT_THAT(refusal_of([&](gemm::Operands& operands) { operands.b = shifted(operands.b); }),
              HasSubstr("operand b is at 0x"));
  EXPECT_THAT(refusal_of([&](gemm::Operands& operands) { operands.output = static_cast<char*>(operands.output) + 8; }),
              HasSubstr("operand output is at 0x"));
  EXPECT_THAT(refusal_of([&](gemm::Operands& operands) { operands.bias = shifted(operands.bias); }),
              HasSubstr("operand bias is at 0x"));
  ranks.finish();
  const std::vector<std::uint16_t> untouched = call.read_result(0, 0);
  EXPECT_EQ(untouched, std::vector<std::uint16_t>(untouched.size(), 0xFFFF));
  expect_right_call(which, ranks, 2);
}

TEST(GemmRefusals, WeightsOfHeadStepsThatAreMissing) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_heads(200, 2, 64, 72), 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  gemm::Operands operands = call.operands(0);
  operands.norm_weight = nullptr;
  EXPECT_THAT(complaint<InputError>([&] { ranks[0].launch(operands, ranks.stream(0)); }),
              HasSubstr("operand norm_weight is null"));
  operands = call.operands(0);
  operands.rotary = nullptr;
  EXPECT_THAT(complaint<InputError>([&] { ranks[0].launch(operands, ranks.stream(0)); }),
              HasSubstr("operand rotary is null"));
  expect_right_call(which, ranks, 2);
}

TEST(GemmRefusals, CommonLaunchesThatLackARank) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case({Operation::all_gather}, 2);
  Ranks ranks(which, {0, 0});
  const Call call(which, ranks.devices(), 1);
  expect_refusal_without_all_ranks(ranks, call);
  expect_right_call(which, ranks, 2);
}

TEST(GemmRefusals, OutputsThatAreNotThere) {
  SKIP_WITHOUT_HOPPER(1);
  Ranks reduce(small_case({Operation::all_reduce}, 2), {0, 0});
  EXPECT_NE(reduce[0].output(0), nullptr);
  EXPECT_THAT(complaint<InputError>([&] { static_cast<void>(reduce[0].output(1)); }), HasSubstr("output 1: it has 1"));
  EXPECT_THAT(complaint<InputError>([&] { static_cast<void>(reduce[0].output(-1)); }), HasSubstr("output -1"));
  Ranks scatter(small_case({Operation::reduce_scatter}, 2), {0, 0});
  EXPECT_THAT(complaint<InputError>([&] { static_cast<void>(scatter[0].output()); }), HasSubstr("it has 0"));
}

}  // namespace
}  // namespace xstage::faults_test
