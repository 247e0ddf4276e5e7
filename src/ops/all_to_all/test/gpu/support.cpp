#include "ops/all_to_all/test/gpu/support.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/random_bits.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/all_to_all/problem.hpp"

namespace xstage::all_to_all_test {

namespace {

constexpr std::size_t guard_bytes = 4096;  // in the heap, before and behind
constexpr std::uint16_t poisoned = 0xFFFF;

/// What rank `rank` must have in its part of the heap: its own rows, and nothing behind them.
Elements expected_result(const Case& which, const std::vector<Elements>& inputs, int rank) {
  const Problem& problem = which.problem;
  Elements result;
  result.reserve(which.buffer_elements());
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    for (std::int64_t row = which.rows_begin(rank); row < which.rows_begin(rank + 1); ++row) {
      for (int head = 0; head < problem.heads; ++head) {
        const Elements& input = inputs[static_cast<std::size_t>(head / which.heads_each())];
        const std::int64_t line = (sequence * problem.rows + row) * which.heads_each() + head % which.heads_each();
        const auto begin = input.begin() + line * problem.head_dim;
        result.insert(result.end(), begin, begin + problem.head_dim);
      }
    }
  }
  result.resize(which.buffer_elements(), poisoned);
  return result;
}

}  // namespace

// ---- cases

std::string Case::text() const { return fmt::format("{} on {} ranks", all_to_all::statement(problem, plan), ranks); }

std::size_t Case::input_elements() const {
  return static_cast<std::size_t>(problem.sequences * problem.rows * heads_each() * problem.head_dim);
}

std::size_t Case::buffer_elements() const {
  return static_cast<std::size_t>(problem.sequences * rows_each() * problem.heads * problem.head_dim);
}

Case make_case(const Problem& problem, int ranks, const Plan& plan) {
  int multiprocessors = 0;
  cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "asking a GPU");
  return {problem, all_to_all::complete_plan(problem, plan, ranks, multiprocessors), ranks};
}

Case random_case(int ranks, Random& random) {
  Problem problem;
  problem.sequences = random.between(1, 3);
  problem.rows = random.between(0, 3) == 0 ? random.between(1, 2 * ranks) : random.between(1, 700);
  problem.heads = ranks * random.between(1, 9);
  problem.head_dim = random.of({64, 128, 128, 8 * random.between(1, 32)});
  Plan plan;
  plan.transfer = random.of({Transfer::by_rule, Transfer::rows, Transfer::boxes});
  plan.chunk_bytes = random.of({0, problem.head_dim * 2, random.between(512, 16000)});
  plan.stages = random.of({0, 3, random.between(3, 12)});
  plan.issuers = random.of({0, 1, 2, random.between(1, 16)});
  if (ranks > 1 && plan.issuers > 0 && random.between(0, 1) == 0) {
    plan.peer_issuers = random.between(1, plan.issuers);
  }
  return make_case(problem, ranks, plan);
}

// ---- one call

Call::Call(const Case& which, const std::vector<int>& devices, std::uint64_t seed) : case_(which), devices_(devices) {
  for (const int device : devices_) {
    there_.emplace_back(device, which.input_elements() * 2, "the input of a test");
    results_.emplace_back(device, which.buffer_elements() * 2, "a result of a test");
  }
  refill(seed);
}

void Call::refill(std::uint64_t seed) {
  inputs_.assign(devices_.size(), Elements(case_.input_elements()));
  for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
    Elements& input = inputs_[rank];
    for (std::size_t index = 0; index < input.size(); ++index) {
      input[index] = static_cast<std::uint16_t>(bench::random_bits(seed * 8 + rank, index) % poisoned);
    }
    const cuda::CurrentDevice current(devices_[rank]);
    cuda::check(cudaMemcpy(there_[rank].as<void>(), input.data(), input.size() * 2, cudaMemcpyHostToDevice),
                "copying an input");
    cuda::check(cudaDeviceSynchronize(), "copying an input");
  }
}

void Call::expect_right() const {
  for (int rank = 0; rank < case_.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const cuda::CurrentDevice current(devices_[at]);
    const Elements seen = results_[at].read<std::uint16_t>(case_.buffer_elements());
    const Elements right = expected_result(case_, inputs_, rank);
    const auto differs = std::mismatch(seen.begin(), seen.end(), right.begin()).first;
    EXPECT_TRUE(differs == seen.end()) << "rank " << rank << " differs from element " << differs - seen.begin();
    EXPECT_TRUE(there_[at].read<std::uint16_t>(case_.input_elements()) == inputs_[at]) << "input was changed";
  }
}

// ---- all ranks

Ranks::Ranks(const Case& which, const std::vector<int>& devices, std::chrono::microseconds time_out)
    : devices_(devices),
      virtual_(devices.size() > 1 && devices[0] == devices[1]),
      heap_(PeerAccessHeap::create(devices, all_to_all::heap_bytes(which.problem, which.ranks) + 2 * guard_bytes)) {
  allocate_guard(before_);
  for (int rank = 0; rank < count(); ++rank) {
    if (rank == 0 || !virtual_) {
      streams_.push_back(std::make_unique<cuda::Stream>(device(rank)));
    }
    handles_.push_back(std::make_unique<AllToAll>(heap_.rank(rank), which.problem, which.plan, time_out));
  }
  allocate_guard(behind_);
  result_ = heap_.rank(0).buffer_at(handles_[0]->output(), which.buffer_elements() * 2);
}

void Ranks::allocate_guard(SymmetricBuffer& guard) {
  for (int rank = 0; rank < count(); ++rank) {
    guard = heap_.rank(rank).allocate("guard", guard_bytes);
    const cuda::CurrentDevice current(device(rank));
    cuda::check(cudaMemset(heap_.rank(rank).local(guard), 0xFF, guard_bytes), "poisoning a guard");
    cuda::check(cudaDeviceSynchronize(), "poisoning a guard");
  }
}

cudaStream_t Ranks::stream(int rank) const { return streams_[virtual_ ? 0 : static_cast<std::size_t>(rank)]->get(); }

std::vector<AllToAll*> Ranks::handles() const {
  std::vector<AllToAll*> handles;
  for (const auto& handle : handles_) {
    handles.push_back(handle.get());
  }
  return handles;
}

std::uint32_t* Ranks::signals(int rank) {
  // The signal pad is the first buffer that a handle takes.
  const SymmetricBuffer pad{guard_bytes, kernels::CallPad::arrivals * sizeof(std::uint32_t)};
  return static_cast<std::uint32_t*>(heap_.rank(rank).local(pad));
}

void Ranks::enqueue(const Call& call) {
  if (!virtual_) {
    for (int rank = 0; rank < count(); ++rank) {
      enqueue_rank(call, rank);
    }
    return;
  }
  std::vector<Operands> operands;
  for (int rank = 0; rank < count(); ++rank) {
    poison(rank);
    operands.push_back(call.operands(rank));
  }
  const std::vector<AllToAll*> all = handles();
  AllToAll::launch_together(all, operands, stream(0));
  for (int rank = 0; rank < count(); ++rank) {
    collect(call, rank);
  }
}

void Ranks::enqueue_rank(const Call& call, int rank) {
  poison(rank);
  (*this)[rank].launch(call.operands(rank), stream(rank));
  collect(call, rank);
}

void Ranks::poison(int rank) {
  const cuda::CurrentDevice current(device(rank));
  cuda::check(cudaMemsetAsync(heap_.rank(rank).local(result_), 0xFF, result_.bytes, stream(rank)),
              "poisoning a result");
}

void Ranks::collect(const Call& call, int rank) {
  const cuda::CurrentDevice current(device(rank));
  cuda::check(cudaMemcpyAsync(call.result(rank), heap_.rank(rank).local(result_), result_.bytes,
                              cudaMemcpyDeviceToDevice, stream(rank)),
              "copying a result");
}

void Ranks::wait() const {
  for (const auto& stream : streams_) {
    cuda::check(cudaStreamSynchronize(stream->get()), "waiting for a rank");
  }
}

void Ranks::finish() const {
  wait();
  for (const auto& handle : handles_) {
    handle->check();
  }
}

void Ranks::expect_untouched_guards() {
  Elements values(guard_bytes / 2);
  for (int rank = 0; rank < count(); ++rank) {
    for (const SymmetricBuffer& guard : {before_, behind_}) {
      cuda::check(cudaMemcpy(values.data(), heap_.rank(rank).local(guard), guard_bytes, cudaMemcpyDeviceToHost),
                  "reading a guard");
      EXPECT_EQ(values, Elements(values.size(), poisoned)) << "around the buffers of rank " << rank;
    }
  }
}

void expect_right_call(const Case& which, Ranks& ranks, std::uint64_t seed) {
  const Call call(which, ranks.devices(), seed);
  ranks.enqueue(call);
  ranks.finish();
  call.expect_right();
}

}  // namespace xstage::all_to_all_test
