// Handles are made and dropped at any time and in any order: between the launches of two ranks, while their kernels
// run, by thousands. What a failed launch leaves behind binds nobody.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "device/handle_memory.hpp"
#include "device/launch.hpp"
#include "fabric/common_launch.hpp"
#include "gpu/fault_support.hpp"
#include "ops/all_to_all/problem.hpp"
#include "ops/all_to_all/test/gpu/support.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/attention.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"
#include "xstage/moe.hpp"

namespace xstage::handles_test {
namespace {

using namespace std::chrono_literals;

using all_to_all::Operands;
using all_to_all::Plan;
using all_to_all::Problem;
using all_to_all_test::Call;
using all_to_all_test::Case;
using all_to_all_test::expect_right_call;
using all_to_all_test::make_case;
using all_to_all_test::Ranks;
using all_to_all_test::two_gpus;
using gpu_test::complaint;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr std::size_t heap_bytes = std::size_t{64} << 20U;

/// One CTA of each rank, so that ranks on one GPU are resident together.
Case small_case() {
  Plan plan;
  plan.issuers = 1;
  return make_case({1, 200, 6, 64}, 2, plan);
}

/// Both ranks' handles of one operation.
struct Pair {
  std::unique_ptr<AllToAll> rank[2];

  Pair(PeerAccessHeap& heap, const Case& which, std::chrono::microseconds time_out = 5s) {
    for (int index = 0; index < 2; ++index) {
      rank[index] = std::make_unique<AllToAll>(heap.rank(index), which.problem, which.plan, time_out);
    }
  }
};

// ---- between the launches of two ranks

/// Rank 0 waits in its kernel while others are made and dropped.
void expect_no_wait_for_the_other_rank(const Case& which, const std::vector<int>& devices) {
  constexpr auto time_out = 400ms;
  const Call call(which, devices, 1);
  auto heap = PeerAccessHeap::create(devices, heap_bytes);
  const cuda::Stream first(devices[0]);
  const cuda::Stream second(devices[1]);
  Pair pair(heap, which, time_out);
  std::optional<Pair> dropped(std::in_place, heap, which);
  for (int index = 0; index < 2; ++index) {  // what a first launch of a process takes is no matter of this test
    pair.rank[index]->launch(call.operands(index), index == 0 ? first.get() : second.get());
  }
  ASSERT_EQ(cudaStreamSynchronize(first.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  const auto start = std::chrono::steady_clock::now();
  pair.rank[0]->launch(call.operands(0), first.get());
  const Pair made(heap, which);
  dropped.reset();
  pair.rank[1]->launch(call.operands(1), second.get());
  const auto held = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(cudaStreamSynchronize(first.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  EXPECT_LT(held, time_out / 2) << "the host was held";
  EXPECT_NO_THROW(pair.rank[0]->check());
  EXPECT_NO_THROW(pair.rank[1]->check());
}

TEST(Handles, AreMadeAndDroppedBetweenTheLaunchesOfTwoRanks) {
  SKIP_WITHOUT_HOPPER(1);
  expect_no_wait_for_the_other_rank(small_case(), {0, 0});
  if (two_gpus()) {
    expect_no_wait_for_the_other_rank(small_case(), {0, 1});
    expect_no_wait_for_the_other_rank(make_case({1, 3000, 24, 128}, 2), {0, 1});  // on all multiprocessors
  }
}

/// The handle of a kernel that waits is gone; its peer comes all the same, and nobody gets the memory of either before.
TEST(Handles, AreDroppedWhileTheirKernelsRun) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case();
  const Call call(which, {0, 0}, 1);
  auto heap = PeerAccessHeap::create({0, 0}, heap_bytes);
  const cuda::Stream first(0);
  const cuda::Stream second(0);
  Pair pair(heap, which, 2s);
  const void* const place = pair.rank[0]->output();
  pair.rank[0]->launch(call.operands(0), first.get());
  pair.rank[0].reset();
  const Pair next(heap, which);
  EXPECT_NE(next.rank[0]->output(), place);
  pair.rank[1]->launch(call.operands(1), second.get());
  ASSERT_EQ(cudaStreamSynchronize(first.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  EXPECT_NO_THROW(pair.rank[1]->check());
}

// ---- by thousands

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

/// Of changing shapes, launched, and dropped in another order on each rank.
void make_and_drop(PeerAccessHeap& heap, int number, const cuda::Stream& stream) {
  const auto shape_of = [](int index) {
    Plan plan;
    plan.issuers = 1 + index % 3;
    return make_case({1, 64 + index % 17 * 8, 2 + index % 5 * 2, 64}, 2, plan);
  };
  const Case a = shape_of(number);
  const Case b = shape_of(3 * number + 1);
  const Call call(a, {0, 0}, static_cast<std::uint64_t>(number));
  Pair first(heap, a);
  Pair second(heap, b);
  const std::vector<AllToAll*> handles{first.rank[0].get(), first.rank[1].get()};
  const std::vector<Operands> operands{call.operands(0), call.operands(1)};
  AllToAll::launch_together(handles, operands, stream.get());
  for (Pair* const pair : {&first, &second}) {
    pair->rank[0].reset();
  }
  for (Pair* const pair : {&second, &first}) {
    pair->rank[1].reset();
  }
  ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
}

TEST(Handles, AThousandTakeNoMoreMemoryThanAFew) {
  SKIP_WITHOUT_HOPPER(1);
  auto heap = PeerAccessHeap::create({0, 0}, heap_bytes);
  const cuda::Stream stream(0);
  for (int number = 0; number < 50; ++number) {
    ASSERT_NO_FATAL_FAILURE(make_and_drop(heap, number, stream));
  }
  const std::size_t before = free_bytes();
  for (int number = 50; number < 500; ++number) {  // four handles each
    ASSERT_NO_FATAL_FAILURE(make_and_drop(heap, number, stream));
  }
  EXPECT_GE(free_bytes() + (std::size_t{2} << 20U), before);
}

// ---- launches that fail

/// On the stream of another GPU.
TEST(Handles, AFailedLaunchLeavesNoErrorBehind) {
  SKIP_WITHOUT_HOPPER(2);
  const Case which = small_case();
  const Call call(which, {0, 1}, 1);
  Ranks ranks(which, {0, 1});
  EXPECT_THAT(complaint<InputError>([&] { ranks[0].launch(call.operands(0), ranks.stream(1)); }),
              HasSubstr("on a stream of GPU 1: it must be one of GPU 0"));
  EXPECT_THROW(cuda::check(cudaSetDevice(1000), "a test"), DeviceError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  const cuda::DeviceBuffer gate(0, 64 * 64 * 2, "a test");
  const cuda::DeviceBuffer packed(0, 2 * 64 * 64 * 2, "a test");
  const moe::Problem problem{64, 64, 1, 1, 1, 0};
  EXPECT_NO_THROW(moe::pack_linear1(problem, gate.as<void>(), gate.as<void>(), 0, packed.as<void>(), nullptr));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  expect_right_call(which, ranks, 2);
}

/// Packing takes the GPU of its tensors, not the current one.
TEST(Handles, PackingRunsWhereItsTensorsLie) {
  SKIP_WITHOUT_HOPPER(2);
  const cuda::DeviceBuffer gate(1, 64 * 64 * 2, "a test");
  const cuda::DeviceBuffer packed(1, 2 * 64 * 64 * 2, "a test");
  const cuda::DeviceBuffer elsewhere(0, 64 * 64 * 2, "a test");
  const cuda::Stream stream(1);
  const moe::Problem problem{64, 64, 1, 1, 1, 0};
  const cuda::CurrentDevice current(0);
  EXPECT_NO_THROW(moe::pack_linear1(problem, gate.as<void>(), gate.as<void>(), 0, packed.as<void>(), stream.get()));
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_THAT(complaint<InputError>([&] {
                moe::pack_linear1(problem, gate.as<void>(), elsewhere.as<void>(), 0, packed.as<void>(), stream.get());
              }),
              HasSubstr("on GPUs 1, 0 and 1"));
}

/// Of its two ranks the second lacks its operand, so nothing is launched; each rank may then launch for itself.
TEST(Handles, ACommonLaunchThatFailedBarsNoOther) {
  SKIP_WITHOUT_HOPPER(1);
  constexpr auto time_out = 100ms;
  const Case which = make_case({1, 5000, 12, 128}, 2);  // for all multiprocessors
  const Call call(which, {0, 0}, 1);
  Ranks ranks(which, {0, 0}, time_out);
  const std::vector<AllToAll*> handles = ranks.handles();
  const std::vector<Operands> operands{call.operands(0), Operands{nullptr}};
  EXPECT_THAT(complaint<InputError>([&] { AllToAll::launch_together(handles, operands, ranks.stream(0)); }),
              HasSubstr("operand input is null"));
  EXPECT_NO_THROW(ranks[0].launch(call.operands(0), ranks.stream(0)));
  ranks.wait();  // its peer does not come: two of them would not fit on one GPU
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[0].check(); }), HasSubstr("peer"));
}

TEST(Handles, ATimeOutIsMoreThanNothingAndAtMostAnHour) {
  SKIP_WITHOUT_HOPPER(1);
  auto heap = PeerAccessHeap::create({0}, heap_bytes);
  HeapRank& rank = heap.rank(0);
  const Case which = make_case({1, 64, 2, 64}, 1);
  for (const std::chrono::microseconds time_out : {std::chrono::microseconds(-1), 0us, 3600s + 1us}) {
    const std::string said = "a time-out of " + std::to_string(time_out.count()) + " us: it must be more than 0";
    EXPECT_THAT(complaint<InputError>([&] { const AllToAll refused(rank, which.problem, which.plan, time_out); }),
                HasSubstr(said));
    EXPECT_THAT(complaint<InputError>([&] { const Gemm refused(rank, gemm::Problem{}, xstage::Plan{}, time_out); }),
                HasSubstr(said));
    EXPECT_THAT(complaint<InputError>(
                    [&] { const Attention refused(rank, attention::Problem{}, attention::Plan{}, time_out); }),
                HasSubstr(said));
    EXPECT_THAT(complaint<InputError>([&] { const MoeLayer refused(rank, moe::Problem{}, moe::Plan{}, time_out); }),
                HasSubstr(said));
  }
  EXPECT_EQ(rank.steps(), 0U) << "a refused rank has taken a step";
}

// ---- common launches

TEST(Handles, CommonLaunchesAreOfAllRanksOfOneHeapOnOneGpu) {
  SKIP_WITHOUT_HOPPER(1);
  auto heap = PeerAccessHeap::create({0, 0}, 4096);
  const HeapRank* const first = &heap.rank(0);
  const HeapRank* const second = &heap.rank(1);
  const auto refusal_of = [](const std::vector<const HeapRank*>& heaps, std::size_t operands) {
    return complaint<InputError>([&] { kernels::check_common_launch(heaps, operands); });
  };
  EXPECT_EQ(refusal_of({first, second}, 2), "");
  EXPECT_EQ(refusal_of({second, first}, 2), "");
  EXPECT_THAT(refusal_of({first, second}, 1), HasSubstr("2 handles and 1 operands"));
  EXPECT_THAT(refusal_of({first, first}, 2), HasSubstr("handle 1 is of rank 0"));
  EXPECT_THAT(refusal_of({first, nullptr}, 2), HasSubstr("handle 1 is null"));
  if (two_gpus()) {
    auto spread = PeerAccessHeap::create({0, 1}, 4096);
    EXPECT_THAT(refusal_of({&spread.rank(0), &spread.rank(1)}, 2),
                AllOf(HasSubstr("handle 1 is on GPU 1"), HasSubstr("call launch() for each rank")));
  }
}

TEST(Handles, KernelsThatWereLaunchedAreNamed) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case();
  Ranks ranks(which, {0, 0});
  expect_right_call(which, ranks, 1);
  expect_right_call(which, ranks, 2);
  std::vector<std::string> names = kernels::launched_kernels();
  EXPECT_THAT(names, Contains(HasSubstr("all_to_all_virtual_kernel")));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << "each once";
}

}  // namespace
}  // namespace xstage::handles_test
