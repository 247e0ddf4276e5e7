#include "gpu/gemm_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/normal_pattern.hpp"
#include "bench/random_bits.hpp"
#include "gemm/layout.hpp"
#include "node/cuda/discovery.hpp"
#include "xstage/error.hpp"

namespace xstage::gemm_test {

namespace {

using bench::GemmCell;
using bench::ResultShape;
using gemm::Operation;

constexpr std::int64_t guard_rows = 3;
constexpr std::size_t guard_bytes = 4096;  // in the heap, before and behind
constexpr std::uint16_t poisoned = 0xFFFF;

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, device), "asking a GPU for an attribute");
  return value;
}

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
  cuda::check(cudaMemcpy(buffer.as<void>(), bits.data(), bits.size() * 2, cudaMemcpyHostToDevice), "copying an operand");
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

int multiprocessors() { return attribute(0, cudaDevAttrMultiProcessorCount); }

std::size_t heap_size(const Case& which) {
  return gemm::heap_bytes(which.cell.problem, which.plan, which.cell.ranks) + 2 * guard_bytes;
}

}  // namespace

std::string unavailable_reason(int gpus) {
  try {
    if (cuda::device_count() < gpus) {
      return fmt::format("fewer than {} GPUs are visible", gpus);
    }
    for (int device = 0; device < gpus; ++device) {
      const int major = attribute(device, cudaDevAttrComputeCapabilityMajor);
      const int minor = attribute(device, cudaDevAttrComputeCapabilityMinor);
      if (major != 9 || minor != 0) {
        return fmt::format("GPU {} has compute capability {}.{}, the kernels need 9.0", device, major, minor);
      }
      if (device > 0 && !(cuda::can_reach(0, device) && cuda::can_reach(device, 0))) {
        return fmt::format("GPUs 0 and {} cannot reach each other's memory", device);
      }
    }
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

int Random::between(int least, int most) {
  const std::uint64_t bits = bench::random_bits(seed_, count_++);
  return least + static_cast<int>(bits % static_cast<std::uint64_t>(most - least + 1));
}

// ---- cases -----------------------------------------------------------------------------------------------------------

std::string Case::text() const {
  return fmt::format("{} on {} ranks, staging={} window={} store_rows={} stages={} group_rows={}",
                     gemm::statement(cell.problem, plan), cell.ranks, plan.staging_chunks, plan.window, plan.store_rows,
                     plan.stages, plan.group_rows);
}

Case make_case(const gemm::Problem& problem, int ranks, const Plan& plan) {
  gemm::check_problem(problem, ranks);
  return {{problem, ranks}, gemm::complete_plan(problem, plan, ranks, multiprocessors())};
}

Case make_case(const gemm::Problem& problem, int ranks) {
  gemm::check_problem(problem, ranks);
  return {{problem, ranks}, gemm::make_plan(problem, ranks, multiprocessors())};
}

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

namespace {

Plan random_plan(const gemm::Problem& problem, Random& random) {
  Plan plan;
  plan.tile_columns = random.of({64, 128, 256});
  if (problem.gated || problem.operation == Operation::all_to_all) {
    plan.tile_columns = std::max(plan.tile_columns, 128);
  }
  plan.cluster_rows = random.between(1, 2);
  plan.cluster_columns = plan.cluster_rows == 2 ? 1 : random.between(1, 2);
  plan.staging_chunks = random.between(1, 4);
  plan.window = random.of({0, 1, 2, 4});
  plan.store_rows = random.of({16, 32, 64});
  plan.stages = random.of({0, 2, 3});
  plan.group_rows = random.between(1, 8);
  plan.issuers = random.of({0, 2, 4, 10});
  plan.chunk_rows = random.of({128, 256});
  plan.chunk_depth = random.of({0, 64, 128});
  return plan;
}

}  // namespace

Case random_case(Operation operation, int ranks, Random& random) {
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
  problem.bias = random.between(0, 1) == 0;
  problem.activation = random.of({gemm::Activation::none, gemm::Activation::none, gemm::Activation::silu});
  // The plan of the rule in one case of four.
  return random.between(0, 3) == 0 ? make_case(problem, ranks) : make_case(problem, ranks, random_plan(problem, random));
}

std::vector<ResultShape> result_shapes(const GemmCell& cell, int rank) {
  std::vector<ResultShape> shapes = bench::result_shapes(cell, rank);
  for (ResultShape& shape : shapes) {
    shape.columns /= cell.problem.gated ? 2 : 1;
  }
  return shapes;
}

// ---- one call --------------------------------------------------------------------------------------------------------

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

// ---- all ranks -------------------------------------------------------------------------------------------------------

Ranks::Ranks(const Case& which, const std::vector<int>& devices, std::chrono::microseconds time_out)
    : case_(which),
      devices_(devices),
      virtual_(devices.size() > 1 && devices[0] == devices[1]),
      heap_(PeerAccessHeap::create(devices, heap_size(which))) {
  for (int rank = 0; rank < count(); ++rank) {
    before_ = heap_.rank(rank).allocate("guard before", guard_bytes);
  }
  // The signal pad is the first buffer that a handle takes.
  signals_ = {guard_bytes, static_cast<std::size_t>(kernels::SignalPad::tile_flags) * sizeof(std::uint32_t)};
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

cudaStream_t Ranks::stream(int rank) const {
  return streams_[virtual_ ? 0 : static_cast<std::size_t>(rank)]->get();
}

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

// ---- reference -------------------------------------------------------------------------------------------------------

namespace {

/// An element in double, and the sum of the magnitudes of the partial sums that ranks exchange for it.
struct Expected {
  double value = 0;
  double partials = 0;
};

double activated(gemm::Activation activation, double value) {
  switch (activation) {
    case gemm::Activation::gelu:
      return 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
    case gemm::Activation::gelu_tanh:
      return 0.5 * value * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (value + 0.044715 * value * value * value)));
    case gemm::Activation::silu:
      return value / (1 + std::exp(-value));
    case gemm::Activation::none:
      break;
  }
  return value;
}

/// Computes results block by block: as many neighbouring columns as an epilogue looks at together.
class Reference {
 public:
  Reference(const GemmCell& cell, const Call& call)
      : problem_(cell.problem), cell_(cell), call_(call), depth_(static_cast<std::size_t>(bench::depth_of_rank(cell))) {}

  /// Columns of a result that are computed together.
  [[nodiscard]] std::int64_t block_columns() const {
    return problem_.operation == Operation::all_to_all ? problem_.head_dim : 8;
  }

  [[nodiscard]] std::vector<Expected> block(int rank, std::size_t part, std::int64_t row, std::int64_t number) const {
    const std::int64_t columns = block_columns() * (problem_.gated ? 2 : 1);
    std::vector<Expected> values;
    for (std::int64_t column = number * columns; column < (number + 1) * columns; ++column) {
      values.push_back(sum(rank, part, row, column));
    }
    if (problem_.operation == Operation::all_to_all) {
      apply_head_steps(values, rank, part, row);
    }
    if (problem_.gated) {
      return gated(values);
    }
    for (Expected& expected : values) {
      expected.value = activated(problem_.activation, expected.value);
    }
    return values;
  }

 private:
  [[nodiscard]] Expected sum(int rank, std::size_t part, std::int64_t row, std::int64_t column) const {
    const std::vector<bench::Product> products = bench::products_of(cell_, rank, part, row, column);
    Expected expected;
    for (const bench::Product& product : products) {
      const float* a = call_.host(product.a_rank).a.data() + static_cast<std::size_t>(product.a_row) * depth_;
      const float* b = call_.host(product.b_rank).b.data() + static_cast<std::size_t>(product.b_row) * depth_;
      double partial = 0;
      for (std::size_t index = 0; index < depth_; ++index) {
        partial += static_cast<double>(a[index]) * static_cast<double>(b[index]);
      }
      expected.value += partial;
      expected.partials += products.size() > 1 ? std::abs(partial) : 0;
    }
    if (problem_.bias) {
      const bench::Product& first = products.front();
      expected.value += static_cast<double>(call_.host(first.b_rank).bias[static_cast<std::size_t>(first.b_row)]);
    }
    return expected;
  }

  void apply_head_steps(std::vector<Expected>& head, int rank, std::size_t part, std::int64_t position) const {
    const HostWeights weights = weights_of(rank, part, position);
    if (problem_.parts[part].norm) {
      double squares = 0;
      for (const Expected& expected : head) {
        squares += expected.value * expected.value;
      }
      const double scale = 1 / std::sqrt(squares / static_cast<double>(head.size()) + static_cast<double>(problem_.norm_epsilon));
      for (std::size_t column = 0; column < head.size(); ++column) {
        head[column].value *= scale * static_cast<double>(weights.norm[column]);
      }
    }
    if (problem_.parts[part].rotary) {
      const std::size_t pairs = head.size() / 2;
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        const auto cosine = static_cast<double>(weights.rotary[2 * pair]);
        const auto sine = static_cast<double>(weights.rotary[2 * pair + 1]);
        const double low = head[pair].value;
        const double high = head[pair + pairs].value;
        head[pair].value = low * cosine - high * sine;
        head[pair + pairs].value = high * cosine + low * sine;
      }
    }
  }

  struct HostWeights {
    const float* norm;
    const float* rotary;
  };
  [[nodiscard]] HostWeights weights_of(int rank, std::size_t part, std::int64_t position) const {
    std::size_t norm_row = 0;
    for (std::size_t before = 0; before < part; ++before) {
      norm_row += problem_.parts[before].norm ? 1 : 0;
    }
    const auto head_dim = static_cast<std::size_t>(problem_.head_dim);
    return {call_.host(rank).norm_weight.data() + norm_row * head_dim,
            call_.host(rank).rotary.data() + static_cast<std::size_t>(position) * head_dim};
  }

  [[nodiscard]] std::vector<Expected> gated(const std::vector<Expected>& pairs) const {
    std::vector<Expected> results(pairs.size() / 2);
    for (std::size_t column = 0; column < results.size(); ++column) {
      const std::size_t gate = column / 8 * 16 + column % 8;
      results[column].value = activated(problem_.activation, pairs[gate].value) * pairs[gate + 8].value;
    }
    return results;
  }

  const gemm::Problem& problem_;
  const GemmCell& cell_;
  const Call& call_;
  std::size_t depth_;
};

/// One rank's part against the reference; empty: right.
std::string complaint_about_part(const Case& which, const Call& call, int rank, std::size_t part) {
  const ResultShape shape = result_shapes(which.cell, rank)[part];
  const std::vector<std::uint16_t> result = call.read_result(rank, part);
  const auto is_number = [](std::uint16_t bits) { return (bits & 0x7F80U) != 0x7F80U; };
  const auto unwritten = std::find_if_not(result.begin(), result.end(), is_number);
  if (unwritten != result.end()) {
    const auto place = unwritten - result.begin();
    return fmt::format("rank {} part {}: {} of {} elements are no numbers, the first in row {}, column {}", rank, part,
                       result.end() - unwritten - std::count_if(unwritten, result.end(), is_number), result.size(),
                       place / shape.columns, place % shape.columns);
  }
  const Reference reference(which.cell, call);
  const std::int64_t width = reference.block_columns();
  const std::size_t blocks = static_cast<std::size_t>(std::clamp<std::int64_t>(64 / width, 3, 8));
  const auto seed = static_cast<std::uint64_t>(rank) * 16 + part;
  struct Comparison {
    std::int64_t row;
    std::int64_t column;
    double result;
    Expected expected;
  };
  std::vector<Comparison> comparisons;
  double squares = 0;
  for (const std::int64_t row : bench::sample(shape.rows, 16, seed)) {
    for (const std::int64_t block : bench::sample(shape.columns / width, blocks, seed + 1000 + static_cast<std::uint64_t>(row))) {
      const std::vector<Expected> expected = reference.block(rank, part, row, block);
      for (std::int64_t column = 0; column < width; ++column) {
        const Expected& one = expected[static_cast<std::size_t>(column)];
        const std::int64_t place = row * shape.columns + block * width + column;
        comparisons.push_back({row, block * width + column,
                               static_cast<double>(bench::from_bf16(result[static_cast<std::size_t>(place)])), one});
        squares += one.value * one.value;
      }
    }
  }
  const double scale = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(comparisons.size(), 1)));
  std::size_t wrong = 0;
  std::string first;
  for (const Comparison& one : comparisons) {
    const double allowed = std::ldexp(std::abs(one.expected.value) + one.expected.partials, -7) + std::ldexp(scale, -14);
    if (!(std::abs(one.result - one.expected.value) <= allowed) && wrong++ == 0) {
      first = fmt::format("row {}, column {}: {} instead of {}, allowed is a difference of {}", one.row, one.column,
                          one.result, one.expected.value, allowed);
    }
  }
  return wrong == 0 ? ""
                    : fmt::format("rank {} part {}: {} of {} sampled elements are wrong, the first in {}", rank, part,
                                  wrong, comparisons.size(), first);
}

}  // namespace

std::string complaint_about(const Case& which, const Call& call) {
  for (int rank = 0; rank < which.cell.ranks; ++rank) {
    for (std::size_t part = 0; part < result_shapes(which.cell, rank).size(); ++part) {
      const std::string complaint = complaint_about_part(which, call, rank, part);
      if (!complaint.empty()) {
        return complaint;
      }
    }
    if (which.cell.problem.operation == Operation::all_reduce && call.read_result(rank, 0) != call.read_result(0, 0)) {
      return fmt::format("ranks 0 and {} have different sums", rank);
    }
  }
  return call.guards_are_untouched() ? "" : "the rows around a result have been written";
}

}  // namespace xstage::gemm_test
