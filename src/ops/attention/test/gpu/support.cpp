#include "ops/attention/test/gpu/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "bench/random_bits.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/test/gpu/reference.hpp"

namespace xstage::attention_test {

namespace {

using attention::Destination;
using attention::Element;

constexpr std::size_t guard_bytes = 4096;        // in the heap before and behind, and around results
constexpr std::size_t spare_bytes = 64U << 10U;  // in the heap, for span recorders
constexpr std::uint16_t poisoned = 0xFFFF;

int multiprocessors() {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "asking a GPU for an attribute");
  return count;
}

std::size_t bytes_of(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }

std::size_t heap_size(const Case& which) {
  return attention::heap_bytes(which.problem, which.ranks) + 2 * guard_bytes + spare_bytes;
}

/// About normally distributed (the sum of four uniform numbers), mean 0, standard deviation 1.
double about_normal(std::uint64_t seed, std::size_t index) {
  const std::uint64_t bits = bench::random_bits(seed, index);
  double sum = 0;
  for (unsigned shift = 0; shift < 64; shift += 16) {
    sum += static_cast<double>((bits >> shift) & 0xFFFFU);
  }
  return (sum / 65536 - 2) * std::sqrt(3.0);
}

float rounded(double value, Element element) { return from_bits(to_bits(static_cast<float>(value), element), element); }

std::vector<float> normal(std::int64_t count, double deviation, std::uint64_t seed, Element element) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t index = 0; index < values.size(); ++index) {
    values[index] = rounded(deviation * about_normal(seed, index), element);
  }
  return values;
}

void upload(const cuda::DeviceBuffer& buffer, int device, const std::vector<float>& values, Element element) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 [element](float value) { return to_bits(value, element); });
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), bits.data(), bits.size() * 2, cudaMemcpyHostToDevice),
              "copying an operand");
}

/// Row `row` of head `head` of [sequences, rows, heads, head_dim].
float* row_of(std::vector<float>& values, std::int64_t line, int heads, int head, int head_dim) {
  return values.data() + (line * heads + head) * head_dim;
}

/// All keys of a head are its first one.
void repeat_first_key(const Case& which, std::vector<float>& key) {
  const attention::Problem& problem = which.problem;
  const int heads = which.kv_heads_each();
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    for (std::int64_t row = 1; row < problem.keys; ++row) {
      for (int head = 0; head < heads; ++head) {
        std::copy_n(row_of(key, sequence * problem.keys, heads, head, problem.head_dim), problem.head_dim,
                    row_of(key, sequence * problem.keys + row, heads, head, problem.head_dim));
      }
    }
  }
}

/// Queries are signs with noise, the same signs in all rows; one key of each head is these signs 16 times as large:
/// with the usual scale its score is 16 x sqrt(head_dim).
void make_one_key_huge(const Case& which, HostOperands& host, std::uint64_t seed) {
  const attention::Problem& problem = which.problem;
  const int head_dim = problem.head_dim;
  const auto sign = [seed](std::size_t column) { return bench::random_bits(seed, column) % 2 == 0 ? 1.0F : -1.0F; };
  for (std::size_t index = 0; index < host.query.size(); ++index) {
    const double value = static_cast<double>(sign(index % static_cast<std::size_t>(head_dim))) +
                         static_cast<double>(host.query[index]) / 4;
    host.query[index] = rounded(value, problem.element);
  }
  const int heads = which.kv_heads_each();
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    for (int head = 0; head < heads; ++head) {
      const auto number = static_cast<std::uint64_t>(sequence * heads + head);
      const auto row =
          static_cast<std::int64_t>(bench::random_bits(seed + 1, number) % static_cast<std::uint64_t>(problem.keys));
      float* key = row_of(host.key, sequence * problem.keys + row, heads, head, head_dim);
      for (int column = 0; column < head_dim; ++column) {
        key[column] = 16 * sign(static_cast<std::size_t>(column));
      }
    }
  }
}

}  // namespace

// ---- cases
// -----------------------------------------------------------------------------------------------------------

std::string Case::text() const {
  return fmt::format("{} on {} ranks, log_sum_exp={}", attention::statement(problem, plan), ranks, log_sum_exp);
}

std::int64_t Case::rows_begin(int rank) const { return std::min(problem.rows, rows_each() * rank); }

std::int64_t Case::result_columns() const {
  return std::int64_t{problem.destination == Destination::local ? heads_each() : problem.heads} * problem.head_dim;
}

std::int64_t Case::result_elements(int rank) const {
  const std::int64_t rows = problem.destination == Destination::to_owners ? own_rows(rank) : problem.rows;
  return problem.sequences * rows * result_columns();
}

std::int64_t Case::written_elements(int rank) const {
  return problem.destination == Destination::twin ? result_elements(rank) / ranks : result_elements(rank);
}

Case::Place Case::place(int rank, std::int64_t sequence, std::int64_t row, int head) const {
  const std::int64_t columns = result_columns();
  if (problem.destination == Destination::local) {
    return {rank, (sequence * problem.rows + row) * columns + std::int64_t{head} * problem.head_dim};
  }
  const int owner_of_row = owner(row);
  const std::int64_t line = sequence * own_rows(owner_of_row) + row - rows_begin(owner_of_row);
  const std::int64_t offset = line * columns + (std::int64_t{rank} * heads_each() + head) * problem.head_dim;
  return problem.destination == Destination::to_owners
             ? Place{owner_of_row, offset}
             : Place{rank, problem.sequences * rows_begin(owner_of_row) * columns + offset};
}

Case make_case(const attention::Problem& problem, int ranks, const attention::Plan& plan, bool log_sum_exp) {
  attention::check_problem(problem, ranks);
  return {problem, attention::complete_plan(problem, plan, ranks, multiprocessors()), ranks, log_sum_exp};
}

attention::Problem make_problem(Destination destination, int ranks, std::int64_t rows, std::int64_t keys, int heads,
                                int kv_heads, int head_dim) {
  attention::Problem problem;
  problem.destination = destination;
  problem.rows = rows;
  problem.keys = keys;
  problem.heads = heads * ranks;
  problem.kv_heads = kv_heads * ranks;
  problem.head_dim = head_dim;
  return problem;
}

namespace {

/// Now and then next to a multiple of the extents of tiles, blocks of keys and stores.
std::int64_t random_extent(Random& random) {
  return random.between(0, 3) == 0 ? random.of({64, 128, 192, 256, 384, 576}) + random.between(-1, 1)
                                   : random.between(1, 700);
}

attention::Plan random_plan(bool causal, Random& random) {
  attention::Plan plan;
  plan.store_path = random.of({StorePath::bulk, StorePath::store16});
  plan.issuers = random.of({0, 1, 2, 3, 5, 10});
  plan.split = random.between(-1, causal ? 0 : 1);
  return plan;
}

}  // namespace

Case random_case(Destination destination, int ranks, Random& random) {
  const int kv_heads = random.between(1, ranks < 4 ? 3 : 1);
  const int heads = kv_heads * random.between(1, kv_heads == 1 ? (ranks < 4 ? 4 : 2) : 6 / kv_heads);
  const std::int64_t rows = random.between(0, 3) == 0 ? random.between(1, 3 * ranks) : random_extent(random);
  const bool causal = random.between(0, 1) == 0;
  attention::Problem problem = make_problem(destination, ranks, rows, causal ? rows : random_extent(random), heads,
                                            kv_heads, random.of({64, 128}));
  problem.sequences = random.between(1, 3);
  problem.causal = causal;
  problem.element = random.of({Element::bf16, Element::fp16});
  problem.scale = random.of({0.0F, 0.0F, 0.2F});
  const bool log_sum_exp = random.between(0, 3) != 0;
  const attention::Plan plan = random.between(0, 3) == 0 ? attention::Plan{} : random_plan(causal, random);
  return make_case(problem, ranks, plan, log_sum_exp);
}

// ---- one call
// --------------------------------------------------------------------------------------------------------

Call::Call(const Case& which, const std::vector<int>& devices, std::uint64_t seed, Pattern pattern) : case_(which) {
  const attention::Problem& problem = which.problem;
  const std::int64_t keys = problem.sequences * problem.keys * which.kv_heads_each() * problem.head_dim;
  const std::int64_t queries = problem.sequences * problem.rows * which.heads_each();
  for (int rank = 0; rank < which.ranks; ++rank) {
    const int device = devices[static_cast<std::size_t>(rank)];
    const auto buffer = [device](std::size_t bytes) { return cuda::DeviceBuffer(device, bytes, "memory of a test"); };
    there_.push_back({device, buffer(bytes_of(queries * problem.head_dim)), buffer(bytes_of(keys)),
                      buffer(bytes_of(keys)), buffer(bytes_of(which.result_elements(rank)) + 2 * guard_bytes),
                      buffer(static_cast<std::size_t>(queries) * sizeof(float) + 2 * guard_bytes)});
  }
  host_.resize(there_.size());
  refill(seed, pattern);
  poison();
}

void Call::refill(std::uint64_t seed, Pattern pattern) {
  const attention::Problem& problem = case_.problem;
  const Element element = problem.element;
  // Each of the two gives a score of normal size the root of its spread.
  const double deviation = pattern == Pattern::far_apart ? 10.0 : 1.0;
  for (std::size_t rank = 0; rank < host_.size(); ++rank) {
    const DeviceSide& there = there_[rank];
    const std::uint64_t stream = (seed * 8 + rank) * 8;
    const auto elements = [](const cuda::DeviceBuffer& buffer) {
      return static_cast<std::int64_t>(buffer.bytes() / 2);
    };
    HostOperands& host = host_[rank];
    host.query = normal(elements(there.query), deviation, stream, element);
    host.key = normal(elements(there.key), deviation, stream + 1, element);
    host.value = normal(elements(there.value), 1.0, stream + 2, element);
    if (pattern == Pattern::equal_scores) {
      repeat_first_key(case_, host.key);
    } else if (pattern == Pattern::one_huge_key) {
      make_one_key_huge(case_, host, stream + 3);
    }
    upload(there.query, there.device, host.query, element);
    upload(there.key, there.device, host.key, element);
    upload(there.value, there.device, host.value, element);
    const cuda::CurrentDevice current(there.device);
    cuda::check(cudaDeviceSynchronize(), "copying operands");
  }
}

void Call::poison() const {
  for (const DeviceSide& there : there_) {
    const cuda::CurrentDevice current(there.device);
    for (const cuda::DeviceBuffer* buffer : {&there.result, &there.log_sum_exp}) {
      cuda::check(cudaMemset(buffer->as<void>(), 0xFF, buffer->bytes()), "poisoning a result");
    }
    cuda::check(cudaDeviceSynchronize(), "poisoning a result");
  }
}

attention::Operands Call::operands(int rank) const {
  const DeviceSide& there = there_[static_cast<std::size_t>(rank)];
  attention::Operands operands;
  operands.query = there.query.as<void>();
  operands.key = there.key.as<void>();
  operands.value = there.value.as<void>();
  operands.output = case_.problem.destination == Destination::local ? result(rank) : nullptr;
  operands.log_sum_exp = case_.log_sum_exp ? there.log_sum_exp.as<float>() + guard_bytes / sizeof(float) : nullptr;
  return operands;
}

std::uint16_t* Call::result(int rank) const {
  return there_[static_cast<std::size_t>(rank)].result.as<std::uint16_t>() + guard_bytes / 2;
}

std::vector<std::uint16_t> Call::read_result(int rank) const {
  const DeviceSide& there = there_[static_cast<std::size_t>(rank)];
  const cuda::CurrentDevice current(there.device);
  const auto all = there.result.read<std::uint16_t>(there.result.bytes() / 2);
  return {all.begin() + guard_bytes / 2, all.end() - guard_bytes / 2};
}

std::vector<float> Call::read_log_sum_exp(int rank) const {
  constexpr std::size_t guard = guard_bytes / sizeof(float);
  const DeviceSide& there = there_[static_cast<std::size_t>(rank)];
  const cuda::CurrentDevice current(there.device);
  const auto all = there.log_sum_exp.read<float>(there.log_sum_exp.bytes() / sizeof(float));
  return {all.begin() + guard, all.end() - guard};
}

bool Call::guards_are_untouched() const {
  const auto untouched = [](const cuda::DeviceBuffer& buffer, bool also_inside) {
    const auto all = buffer.read<std::uint16_t>(buffer.bytes() / 2);
    const auto is_poisoned = [](std::uint16_t value) { return value == poisoned; };
    constexpr std::ptrdiff_t guard = guard_bytes / 2;
    return also_inside ? std::all_of(all.begin(), all.end(), is_poisoned)
                       : std::all_of(all.begin(), all.begin() + guard, is_poisoned) &&
                             std::all_of(all.end() - guard, all.end(), is_poisoned);
  };
  return std::all_of(there_.begin(), there_.end(), [&](const DeviceSide& there) {
    const cuda::CurrentDevice current(there.device);
    return untouched(there.result, false) && untouched(there.log_sum_exp, !case_.log_sum_exp);
  });
}

std::vector<std::uint16_t> all_bits(const Case& which, const Call& call) {
  std::vector<std::uint16_t> all;
  for (int rank = 0; rank < which.ranks; ++rank) {
    const std::vector<std::uint16_t> result = call.read_result(rank);
    all.insert(all.end(), result.begin(), result.end());
    const std::vector<float> log_sum_exp = call.read_log_sum_exp(rank);
    for (const float value : log_sum_exp) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      all.push_back(static_cast<std::uint16_t>(bits >> 16U));
      all.push_back(static_cast<std::uint16_t>(bits & 0xFFFFU));
    }
  }
  return all;
}

// ---- all ranks
// -------------------------------------------------------------------------------------------------------

Ranks::Ranks(const Case& which, const std::vector<int>& devices, std::chrono::microseconds time_out)
    : case_(which),
      devices_(devices),
      virtual_(devices.size() > 1 && devices[0] == devices[1]),
      heap_(PeerAccessHeap::create(devices, heap_size(which))) {
  for (int rank = 0; rank < count(); ++rank) {
    before_ = heap_.rank(rank).allocate("guard before", guard_bytes);
  }
  for (int rank = 0; rank < count(); ++rank) {
    if (rank == 0 || !virtual_) {
      streams_.push_back(std::make_unique<cuda::Stream>(devices_[static_cast<std::size_t>(rank)]));
    }
    handles_.push_back(std::make_unique<Attention>(heap_.rank(rank), which.problem, which.plan, time_out));
  }
  for (int rank = 0; rank < count(); ++rank) {
    behind_ = heap_.rank(rank).allocate("guard behind", guard_bytes);
    const cuda::CurrentDevice current(devices_[static_cast<std::size_t>(rank)]);
    cuda::check(cudaMemset(heap_.rank(rank).local(before_), 0xFF, guard_bytes), "poisoning a guard");
    cuda::check(cudaMemset(heap_.rank(rank).local(behind_), 0xFF, guard_bytes), "poisoning a guard");
    cuda::check(cudaDeviceSynchronize(), "poisoning a guard");
    poison_heap_result(rank);
  }
  wait();
}

cudaStream_t Ranks::stream(int rank) const { return streams_[virtual_ ? 0 : static_cast<std::size_t>(rank)]->get(); }

std::uint32_t* Ranks::signals(int rank) {
  // The signal pad is the first buffer that a handle takes.
  const SymmetricBuffer pad{guard_bytes, kernels::CallPad::arrivals * sizeof(std::uint32_t)};
  return static_cast<std::uint32_t*>(heap_.rank(rank).local(pad));
}

std::vector<Attention*> Ranks::handles() {
  std::vector<Attention*> handles;
  for (const auto& handle : handles_) {
    handles.push_back(handle.get());
  }
  return handles;
}

/// In the rank's stream: peers store only after this rank has entered the call. All of the buffer, which has the same
/// size on every rank, that of the first one's rows.
void Ranks::poison_heap_result(int rank) {
  if (case_.problem.destination == Destination::local || (*this)[rank].output() == nullptr) {
    return;
  }
  const cuda::CurrentDevice current(devices_[static_cast<std::size_t>(rank)]);
  cuda::check(cudaMemsetAsync((*this)[rank].output(), 0xFF, bytes_of(case_.result_elements(0)), stream(rank)),
              "poisoning a result");
}

void Ranks::collect(const Call& call, int rank) {
  const std::size_t bytes = bytes_of(case_.result_elements(rank));
  if (case_.problem.destination == Destination::local || bytes == 0) {
    return;
  }
  const cuda::CurrentDevice current(devices_[static_cast<std::size_t>(rank)]);
  cuda::check(cudaMemcpyAsync(call.result(rank), (*this)[rank].output(), bytes, cudaMemcpyDeviceToDevice, stream(rank)),
              "copying a result");
}

void Ranks::await_arrival(int rank) {
  if (completion_ == Completion::sent) {
    (*this)[rank].await_arrival(stream(rank));
  }
}

void Ranks::launch_rank(const Call& call, int rank) {
  (*this)[rank].launch(call.operands(rank), stream(rank), completion_);
  await_arrival(rank);
}

void Ranks::enqueue_rank(const Call& call, int rank) {
  poison_heap_result(rank);
  launch_rank(call, rank);
  collect(call, rank);
}

void Ranks::enqueue(const Call& call) {
  if (virtual_ && case_.problem.destination != Destination::local) {
    enqueue_together(call);
    return;
  }
  for (int rank = 0; rank < count(); ++rank) {
    enqueue_rank(call, rank);
  }
}

void Ranks::enqueue_together(const Call& call) {
  std::vector<attention::Operands> operands;
  for (int rank = 0; rank < count(); ++rank) {
    poison_heap_result(rank);
    operands.push_back(call.operands(rank));
  }
  const std::vector<Attention*> all = handles();
  Attention::launch_together(all, operands, stream(0), completion_);
  for (int rank = 0; rank < count(); ++rank) {
    await_arrival(rank);
    collect(call, rank);
  }
}

void Ranks::wait() const {
  for (const auto& stream : streams_) {
    cuda::check(cudaStreamSynchronize(stream->get()), "waiting for a rank");
  }
}

void Ranks::finish() {
  wait();
  for (const auto& handle : handles_) {
    handle->check();
  }
}

bool Ranks::is_poisoned(const void* pointer, std::size_t bytes) const {
  std::vector<std::uint16_t> values(bytes / 2);
  cuda::check(cudaMemcpy(values.data(), pointer, bytes, cudaMemcpyDeviceToHost), "reading a guard");
  return std::all_of(values.begin(), values.end(), [](std::uint16_t value) { return value == poisoned; });
}

bool Ranks::guards_are_untouched() {
  for (int rank = 0; rank < count(); ++rank) {
    for (const SymmetricBuffer& guard : {before_, behind_}) {
      if (!is_poisoned(heap_.rank(rank).local(guard), guard_bytes)) {
        return false;
      }
    }
    const void* output = case_.problem.destination == Destination::local ? nullptr : (*this)[rank].output();
    const std::size_t own = bytes_of(case_.result_elements(rank));
    if (output != nullptr &&
        !is_poisoned(static_cast<const char*>(output) + own, bytes_of(case_.result_elements(0)) - own)) {
      return false;
    }
  }
  return true;
}

}  // namespace xstage::attention_test
