#include "ops/gemm/test/gpu/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/normal_pattern.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/gemm/layout.hpp"

namespace xstage::gemm_test {

namespace {

using bench::GemmCell;
using bench::ResultShape;
using gemm::Operation;

constexpr std::int64_t guard_rows = 3;
constexpr std::size_t guard_bytes = 4096;  // in the heap, before and behind
constexpr std::uint16_t poisoned = 0xFFFF;

bool in_heap(Operation operation) { return operation == Operation::all_reduce || operation == Operation::all_to_all; }

std::vector<float> rounded_normal(std::size_t count, double deviation, std::uint64_t seed) {
  const std::vector<std::uint16_t> bits = bench::normal_pattern(count, deviation, seed);
  std::vector<float> values(count);
  std::transform(bits.begin(), bits.end(), values.begin(), bench::from_bf16);
  return values;
}

void upload_bf16(const cuda::DeviceBuffer& buffer, int device, const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), bench::to_bf16);
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), bits.data(), bits.size() * 2, cudaMemcpyHostToDevice),
              "copying an operand");
}

void upload_floats(const cuda::DeviceBuffer& buffer, int device, const std::vector<float>& values) {
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
              "copying an operand");
}

/// Cosine and sine of position * theta^(-2 i / head_dim).
std::vector<float> rotary_table(std::int64_t positions, int head_dim) {
  std::vector<float> table;
  for (std::int64_t position = 0; position < positions; ++position) {
    for (int pair = 0; pair < head_dim / 2; ++pair) {
      const double angle = static_cast<double>(position) * std::pow(10000.0, -2.0 * pair / head_dim);
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

int multiprocessors() {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
              "asking a GPU for its multiprocessors");
  return count;
}

std::size_t heap_size(const Case& which) {
  return gemm::heap_bytes(which.cell.problem, which.plan, which.cell.ranks) + 2 * guard_bytes;
}

}  // namespace

// ---- cases
// -----------------------------------------------------------------------------------------------------------

std::string Case::text() const {
  return fmt::format("{} on {} ranks", gemm::statement(cell.problem, plan), cell.ranks);
}

Case make_case(const gemm::Problem& problem, int ranks, const Plan& plan) {
  gemm::check_problem(problem, ranks);
  return {{problem, ranks}, gemm::complete_plan(problem, plan, ranks, multiprocessors())};
}

Case make_case(const gemm::Problem& problem, int ranks, AllReduceAlgorithm all_reduce) {
  gemm::check_problem(problem, ranks);
  Plan plan = gemm::make_plan(problem, ranks, multiprocessors());
  plan.all_reduce = all_reduce;
  plan.staging_over_ring = -1;  // what the rule chose for its own reduction
  plan.stages = 0;
  if (!plan_allowed(problem, plan)) {
    plan.tile_columns = 128;
    plan.staging_chunks = 2;
  }
  return make_case(problem, ranks, plan);
}

std::string FusedOperation::name() const { return gemm::operation_name(operation) + (exchanges() ? "_one_shot" : ""); }

gemm::Problem make_problem(Operation operation, std::int64_t m, std::int64_t n, std::int64_t k) {
  gemm::Problem problem;
  problem.operation = operation;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

gemm::Problem make_heads(std::int64_t m, int heads, int head_dim, std::int64_t k) {
  gemm::Problem problem = make_problem(Operation::all_to_all, m, std::int64_t{3} * heads * head_dim, k);
  problem.head_dim = head_dim;
  problem.parts = {{heads, true, true}, {heads, true, true}, {heads, false, false}};
  return problem;
}

gemm::Problem problem_of(const FusedOperation& fused, std::int64_t m, std::int64_t n, std::int64_t k, int heads,
                         int head_dim) {
  return fused.operation == Operation::all_to_all ? make_heads(m, heads, head_dim, k)
                                                  : make_problem(fused.operation, m, n, k);
}

namespace {

Plan random_plan(const gemm::Problem& problem, Random& random) {
  Plan plan;
  plan.tile_columns = random.of({64, 128, 256});
  if (problem.gated || problem.operation == Operation::all_to_all) {
    plan.tile_columns = std::max(plan.tile_columns, 128);
  }
  plan.cluster_rows = random.between(1, 2);
  plan.cluster_columns = plan.cluster_rows == 2 ? 1 : random.between(1, 2);
  plan.staging_chunks = random.between(0, 4);
  plan.store_interval_ns = random.of({-1, 0, 700});
  plan.push_interval_ns = random.of({-1, 0, 700});
  plan.window = random.of({0, 1, 2, 4});
  plan.store_rows = random.of({16, 32, 64});
  plan.stages = random.of({0, 2, 3});
  plan.group_rows = random.between(1, 8);
  plan.issuers = random.of({0, 2, 4, 10});
  plan.push_warps = random.between(0, 2);
  plan.chunk_rows = random.of({128, 256});
  plan.chunk_depth = random.of({0, 64, 128});
  return plan;
}

}  // namespace

Case random_case(const FusedOperation& fused, int ranks, Random& random) {
  const Operation operation = fused.operation;
  const std::int64_t m = random.between(0, 3) == 0 ? random.between(1, 2 * ranks) : random.between(1, 700);
  const bool sums = operation == Operation::reduce_scatter || operation == Operation::all_reduce;
  const std::int64_t k = sums ? 8 * ranks * random.between(1, 320 / ranks / 8 + 8) : 8 * random.between(1, 48);
  gemm::Problem problem = make_problem(operation, m, 8 * random.between(1, 90), k);
  if (operation == Operation::all_gather) {
    problem.n = 8 * ranks * random.between(1, 500 / 8 / ranks + 20);
  } else if (operation == Operation::all_to_all) {
    problem = make_heads(m, ranks * random.between(1, ranks < 4 ? 3 : 1), random.of({64, 128}), k);
    problem.parts[0].norm = random.between(0, 1) == 0;
    problem.parts[1].rotary = random.between(0, 1) == 0;
  }
  problem.fp32_partials = operation == Operation::reduce_scatter || (operation == Operation::all_reduce &&
                                                                     fused.all_reduce == AllReduceAlgorithm::two_shot)
                              ? random.between(0, 2) == 0
                              : false;
  problem.bias = random.between(0, 1) == 0;
  problem.activation = random.of({gemm::Activation::none, gemm::Activation::none, gemm::Activation::silu});
  if (random.between(0, 3) == 0) {
    return make_case(problem, ranks, fused.all_reduce);
  }
  Plan plan = random_plan(problem, random);
  plan.all_reduce = fused.all_reduce;
  if (!plan_allowed(problem, plan)) {
    plan.tile_columns = 128;
  }
  return make_case(problem, ranks, plan);
}

bool plan_allowed(const gemm::Problem& problem, const Plan& plan) {
  return problem.operation != Operation::all_reduce || plan.all_reduce == AllReduceAlgorithm::two_shot ||
         plan.tile_columns < 256;
}

std::vector<ResultShape> result_shapes(const GemmCell& cell, int rank) {
  std::vector<ResultShape> shapes = bench::result_shapes(cell, rank);
  for (ResultShape& shape : shapes) {
    shape.columns /= cell.problem.gated ? 2 : 1;
  }
  return shapes;
}

// ---- one call
// --------------------------------------------------------------------------------------------------------

Call::Call(const Case& which, const std::vector<int>& devices, std::uint64_t seed) : cell_(which.cell) {
  const gemm::Problem& problem = cell_.problem;
  for (int rank = 0; rank < cell_.ranks; ++rank) {
    const int device = devices[static_cast<std::size_t>(rank)];
    const gemm::Layout layout = gemm::make_layout(problem, which.plan, rank, cell_.ranks);
    HostOperands host;
    host.a.resize(static_cast<std::size_t>(layout.a.rows * layout.a.columns));
    host.b.resize(static_cast<std::size_t>(layout.b.rows * layout.b.columns));
    host.bias.resize(static_cast<std::size_t>(layout.b.rows));
    host.norm_weight.resize(problem.parts.size() * static_cast<std::size_t>(problem.head_dim));
    if (!problem.parts.empty()) {
      host.rotary = rotary_table(problem.m, problem.head_dim);
    }
    const auto buffer = [device](std::size_t elements, std::size_t each) {
      return cuda::DeviceBuffer(device, std::max<std::size_t>(elements, 1) * each, "an operand of a test");
    };
    operands_.push_back({device, buffer(host.a.size(), 2), buffer(host.b.size(), 2), buffer(host.bias.size(), 2),
                         buffer(host.norm_weight.size(), 4), buffer(host.rotary.size(), 4)});
    host_.push_back(std::move(host));
    std::vector<Place> places;
    for (const ResultShape& shape : gemm_test::result_shapes(cell_, rank)) {
      const auto bytes = static_cast<std::size_t>((shape.rows + 2 * guard_rows) * shape.columns) * 2;
      places.push_back({device, shape, cuda::DeviceBuffer(device, bytes, "a result of a test")});
    }
    results_.push_back(std::move(places));
  }
  refill(seed);
  poison();
}

void Call::refill(std::uint64_t seed) {
  // Results have a standard deviation of about 1. Where the bias is that of a whole result, all ranks have the same.
  const double deviation = 1 / std::sqrt(static_cast<double>(cell_.problem.k));
  const bool own_columns = cell_.problem.operation == Operation::all_gather;
  for (std::size_t rank = 0; rank < host_.size(); ++rank) {
    HostOperands& host = host_[rank];
    const std::uint64_t stream = seed * 64 + rank * 4;
    host.a = rounded_normal(host.a.size(), 1.0, stream);
    host.b = rounded_normal(host.b.size(), deviation, stream + 1);
    host.bias = rounded_normal(host.bias.size(), 0.5, own_columns ? stream + 2 : seed * 64 + 2);
    host.norm_weight = rounded_normal(host.norm_weight.size(), 1.0, seed * 64 + 3);
    const DeviceOperands& there = operands_[rank];
    upload_bf16(there.a, there.device, host.a);
    upload_bf16(there.b, there.device, host.b);
    upload_bf16(there.bias, there.device, host.bias);
    upload_floats(there.norm_weight, there.device, host.norm_weight);
    upload_floats(there.rotary, there.device, host.rotary);
    const cuda::CurrentDevice current(there.device);
    cuda::check(cudaDeviceSynchronize(), "copying operands");
  }
}

void Call::overwrite_a(int rank, std::size_t index, std::uint16_t bits) const {
  const DeviceOperands& there = operands_[static_cast<std::size_t>(rank)];
  const cuda::CurrentDevice current(there.device);
  cuda::check(cudaMemcpy(there.a.as<std::uint16_t>() + index, &bits, sizeof(bits), cudaMemcpyHostToDevice),
              "overwriting an element of an operand");
  cuda::check(cudaDeviceSynchronize(), "overwriting an element of an operand");
}

void Call::poison() const {
  for (const std::vector<Place>& places : results_) {
    for (const Place& place : places) {
      const cuda::CurrentDevice current(place.device);
      cuda::check(cudaMemset(place.buffer.as<void>(), 0xFF, place.buffer.bytes()), "poisoning a result");
      cuda::check(cudaDeviceSynchronize(), "poisoning a result");
    }
  }
}

gemm::Operands Call::operands(int rank) const {
  const DeviceOperands& there = operands_[static_cast<std::size_t>(rank)];
  gemm::Operands operands;
  operands.a = host(rank).a.empty() ? nullptr : there.a.as<void>();
  operands.b = there.b.as<void>();
  operands.output = in_heap(cell_.problem.operation) ? nullptr : result(rank, 0);
  operands.bias = cell_.problem.bias ? there.bias.as<void>() : nullptr;
  operands.norm_weight = host(rank).norm_weight.empty() ? nullptr : there.norm_weight.as<float>();
  operands.rotary = host(rank).rotary.empty() ? nullptr : there.rotary.as<float>();
  return operands;
}

std::uint16_t* Call::result(int rank, std::size_t part) const {
  const Place& place = results_[static_cast<std::size_t>(rank)][part];
  return place.shape.rows == 0 ? nullptr : place.buffer.as<std::uint16_t>() + guard_rows * place.shape.columns;
}

std::vector<std::uint16_t> Call::read_result(int rank, std::size_t part) const {
  const Place& place = results_[static_cast<std::size_t>(rank)][part];
  std::vector<std::uint16_t> values(static_cast<std::size_t>(place.shape.rows * place.shape.columns));
  if (!values.empty()) {
    const cuda::CurrentDevice current(place.device);
    cuda::check(cudaMemcpy(values.data(), result(rank, part), values.size() * 2, cudaMemcpyDeviceToHost),
                "reading a result");
  }
  return values;
}

bool Call::guards_are_untouched() const {
  for (const std::vector<Place>& places : results_) {
    for (const Place& place : places) {
      const cuda::CurrentDevice current(place.device);
      const std::vector<std::uint16_t> all = place.buffer.read<std::uint16_t>(place.buffer.bytes() / 2);
      const auto guard = guard_rows * place.shape.columns;
      const auto is_poisoned = [](std::uint16_t value) { return value == poisoned; };
      if (!std::all_of(all.begin(), all.begin() + guard, is_poisoned) ||
          !std::all_of(all.end() - guard, all.end(), is_poisoned)) {
        return false;
      }
    }
  }
  return true;
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
  // The signal pad is the first buffer that a handle takes.
  signals_ = {guard_bytes, static_cast<std::size_t>(kernels::CallPad::arrivals) * sizeof(std::uint32_t)};
  for (int rank = 0; rank < count(); ++rank) {
    if (rank == 0 || !virtual_) {
      streams_.push_back(std::make_unique<cuda::Stream>(devices_[static_cast<std::size_t>(rank)]));
    }
    handles_.push_back(std::make_unique<Gemm>(heap_.rank(rank), which.cell.problem, which.plan, time_out));
  }
  for (int rank = 0; rank < count(); ++rank) {
    behind_ = heap_.rank(rank).allocate("guard behind", guard_bytes);
    const cuda::CurrentDevice current(devices_[static_cast<std::size_t>(rank)]);
    cuda::check(cudaMemset(heap_.rank(rank).local(before_), 0xFF, guard_bytes), "poisoning a guard");
    cuda::check(cudaMemset(heap_.rank(rank).local(behind_), 0xFF, guard_bytes), "poisoning a guard");
    cuda::check(cudaDeviceSynchronize(), "poisoning a guard");
  }
}

cudaStream_t Ranks::stream(int rank) const { return streams_[virtual_ ? 0 : static_cast<std::size_t>(rank)]->get(); }

std::vector<Gemm*> Ranks::handles() {
  std::vector<Gemm*> handles;
  for (const auto& handle : handles_) {
    handles.push_back(handle.get());
  }
  return handles;
}

void Ranks::poison_heap_results(int rank) {
  if (!in_heap(case_.cell.problem.operation)) {
    return;
  }
  const cuda::CurrentDevice current(devices_[static_cast<std::size_t>(rank)]);
  const std::vector<ResultShape> shapes = gemm_test::result_shapes(case_.cell, rank);
  for (std::size_t part = 0; part < shapes.size(); ++part) {
    // In the rank's stream: peers store only after this rank has entered the call.
    cuda::check(cudaMemsetAsync((*this)[rank].output(static_cast<int>(part)), 0xFF,
                                static_cast<std::size_t>(shapes[part].rows * shapes[part].columns) * 2, stream(rank)),
                "poisoning a result");
  }
}

void Ranks::collect(const Call& call, int rank) {
  if (!in_heap(case_.cell.problem.operation)) {
    return;
  }
  const cuda::CurrentDevice current(devices_[static_cast<std::size_t>(rank)]);
  const std::vector<ResultShape> shapes = gemm_test::result_shapes(case_.cell, rank);
  for (std::size_t part = 0; part < shapes.size(); ++part) {
    cuda::check(cudaMemcpyAsync(call.result(rank, part), (*this)[rank].output(static_cast<int>(part)),
                                static_cast<std::size_t>(shapes[part].rows * shapes[part].columns) * 2,
                                cudaMemcpyDeviceToDevice, stream(rank)),
                "copying a result");
  }
}

void Ranks::launch_rank(const Call& call, int rank) { (*this)[rank].launch(call.operands(rank), stream(rank)); }

void Ranks::enqueue_rank(const Call& call, int rank) {
  poison_heap_results(rank);
  launch_rank(call, rank);
  collect(call, rank);
}

void Ranks::enqueue(const Call& call) {
  if (!virtual_) {
    for (int rank = 0; rank < count(); ++rank) {
      enqueue_rank(call, rank);
    }
    return;
  }
  std::vector<gemm::Operands> operands;
  for (int rank = 0; rank < count(); ++rank) {
    poison_heap_results(rank);
    operands.push_back(call.operands(rank));
  }
  const std::vector<Gemm*> all = handles();
  Gemm::launch_together(all, operands, stream(0));
  for (int rank = 0; rank < count(); ++rank) {
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

bool Ranks::guards_are_untouched() {
  std::vector<std::uint16_t> values(guard_bytes / 2);
  for (int rank = 0; rank < count(); ++rank) {
    for (const SymmetricBuffer& guard : {before_, behind_}) {
      cuda::check(cudaMemcpy(values.data(), heap_.rank(rank).local(guard), guard_bytes, cudaMemcpyDeviceToHost),
                  "reading a guard");
      if (!std::all_of(values.begin(), values.end(), [](std::uint16_t value) { return value == poisoned; })) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace xstage::gemm_test
