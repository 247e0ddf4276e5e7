#include "ops/moe/test/gpu/layer_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "bench/normal_pattern.hpp"
#include "bench/random_bits.hpp"
#include "bench/sampling.hpp"

namespace xstage::moe_layer_test {

namespace {

constexpr int poison_byte = 0xFF;
constexpr std::uint16_t poisoned = 0xFFFF;  // a NaN

std::size_t index_of(std::int64_t value) { return static_cast<std::size_t>(value); }

template <typename Value>
void copy_to(const cuda::DeviceBuffer& buffer, int device, std::span<const Value> values) {
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
              "copying an operand of a test");
  // Copies may return before they are done, and other streams do not wait for them.
  cuda::check(cudaDeviceSynchronize(), "copying an operand of a test");
}

template <typename Value>
cuda::DeviceBuffer on_device(int device, std::span<const Value> values) {
  cuda::DeviceBuffer buffer(device, std::max<std::size_t>(values.size_bytes(), 16), "an operand of a test");
  copy_to(buffer, device, values);
  return buffer;
}

}  // namespace

// ---- cases

std::string Case::text() const {
  return fmt::format(
      "{} ranks, hidden {}, intermediate {}, {} experts a rank, top {}, at most {} tokens, clamp {}, {} issuers, "
      "combine {}",
      ranks, problem.hidden, problem.intermediate, problem.experts_per_rank, problem.top_k, problem.most_tokens,
      problem.clamp, plan.issuers, plan.combine == moe::Combine::rows ? "rows" : "partial sums");
}

Case make_case(int ranks, std::int64_t hidden, std::int64_t intermediate, int experts_per_rank, int top_k,
               std::int64_t most_tokens) {
  Case which;
  which.ranks = ranks;
  which.problem = {hidden, intermediate, experts_per_rank, top_k, most_tokens, 0};
  return which;
}

Case random_case(int ranks, Random& random) {
  Case which;
  which.ranks = ranks;
  moe::Problem& problem = which.problem;
  problem.hidden = random.of({64, 128, 192, 320, 576, 1088});
  problem.intermediate = random.of({64, 128, 192, 320, 448, 832});
  constexpr std::int64_t most_weights = 8'000'000;
  const std::int64_t most_experts = most_weights / (3 * problem.hidden * problem.intermediate * ranks);
  problem.experts_per_rank =
      std::clamp(random.of({1, 2, 3, 7, 32, random.between(3, 256)}), 1,
                 static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(most_experts, 1), 256)));
  problem.top_k = std::min(random.between(1, 16), ranks * problem.experts_per_rank);
  problem.most_tokens = random.of({1, 17, 200, random.between(1, 700)});
  problem.clamp = random.of({0.0F, 0.0F, 0.75F});
  which.plan.issuers = random.of({0, 0, 1, random.between(2, 40)});
  which.plan.combine = random.of({moe::Combine::partial_sums, moe::Combine::rows});
  which.plan.dispatch_senders = random.of({0, 0, 1, 4});
  which.plan.combine_adder_groups = random.of({0, 0, 1, 3});
  which.plan.linear1_tile_columns = random.of({0, 0, 128, 256});
  which.plan.linear2_tile_columns = random.of({0, 0, 128, 256});
  if (ranks > 1) {
    which.plan.dispatch_copiers = random.of({0, 0, 5, 11});
    which.plan.combine_senders = random.of({0, 0, 2, 8});
  }
  return which;
}

moe::Routing routing_of(const Case& which, const std::vector<std::int64_t>& tokens, moe::Skew skew,
                        std::uint64_t seed) {
  moe::RoutingRequest request = moe::request_for(which.problem, which.ranks, 0);
  request.tokens = tokens;
  request.skew = skew;
  request.seed = seed;
  return moe::make_routing(request);
}

moe::Routing random_routing(const Case& which, Random& random) {
  moe::RoutingRequest request = moe::request_for(which.problem, which.ranks, 0);
  const int most = static_cast<int>(which.problem.most_tokens);
  for (std::int64_t& tokens : request.tokens) {
    tokens = random.of({0, 1, most, most, random.between(0, most), random.between(0, most)});
  }
  request.skew = random.of({moe::Skew::balanced, moe::Skew::zipf, moe::Skew::one_expert});
  request.masked_tokens = random.of({moe::Share{0, 1}, moe::Share{0, 1}, moe::Share{1, 5}, moe::Share{1, 1}});
  request.masked_choices = random.of({moe::Share{0, 1}, moe::Share{1, 3}});
  request.seed = static_cast<std::uint64_t>(random.between(1, 1 << 20));
  moe::Routing routing = moe::make_routing(request);
  const auto top_k = index_of(which.problem.top_k);
  for (moe::RankRouting& rank : routing.ranks) {
    for (std::size_t token = 0; token < index_of(rank.tokens); ++token) {
      const auto first = rank.experts.begin() + static_cast<std::ptrdiff_t>(token * top_k);
      if (token % 5 == 0 && top_k > 1) {
        first[1] = first[0];
      } else if (token % 7 == 0) {
        std::fill_n(first, top_k, first[0]);
      }
      if (token % 3 == 0) {
        rank.weights[token * top_k] *= -1.5F;
      }
    }
  }
  return routing;
}

// ---- weights

LayerWeights::LayerWeights(const Case& which, const std::vector<int>& devices, std::uint64_t seed)
    : problem_(which.problem) {
  const std::int64_t each = problem_.hidden * problem_.intermediate;
  const std::size_t all = index_of(each * problem_.experts_per_rank * which.ranks);
  const double deviation1 = 1 / std::sqrt(static_cast<double>(problem_.hidden));
  const double deviation2 = 1 / std::sqrt(static_cast<double>(problem_.intermediate));
  gate_ = bench::normal_pattern(all, deviation1, seed * 3 + 1001);
  up_ = bench::normal_pattern(all, deviation1, seed * 3 + 1002);
  linear2_ = bench::normal_pattern(all, deviation2, seed * 3 + 1003);
  for (int rank = 0; rank < which.ranks; ++rank) {
    upload(rank, devices[index_of(rank)]);
  }
}

void LayerWeights::upload(int rank, int device) {
  const std::size_t count = index_of(problem_.hidden * problem_.intermediate * problem_.experts_per_rank);
  const auto part = [&](const Elements& all) {
    return std::span<const std::uint16_t>(all).subspan(count * index_of(rank), count);
  };
  const cuda::CurrentDevice current(device);
  const cuda::DeviceBuffer gate = on_device(device, part(gate_));
  const cuda::DeviceBuffer up = on_device(device, part(up_));
  Rank made;
  made.linear1 = {device, 2 * count * sizeof(std::uint16_t), "packed weights"};
  made.linear2 = on_device(device, part(linear2_));
  moe::pack_linear1(problem_, gate.as<void>(), up.as<void>(), 0, made.linear1.as<void>(), nullptr);
  cuda::check(cudaDeviceSynchronize(), "packing weights");
  ranks_.push_back(std::move(made));
}

std::span<const std::uint16_t> LayerWeights::row(const Elements& all, int expert, std::int64_t row, std::int64_t rows,
                                                 std::int64_t columns) const {
  return std::span<const std::uint16_t>(all).subspan(index_of((std::int64_t{expert} * rows + row) * columns),
                                                     index_of(columns));
}

moe::ExpertWeights LayerWeights::host() const {
  const std::int64_t hidden = problem_.hidden;
  const std::int64_t intermediate = problem_.intermediate;
  return {[=, this](int expert, std::int64_t number) { return row(gate_, expert, number, intermediate, hidden); },
          [=, this](int expert, std::int64_t number) { return row(up_, expert, number, intermediate, hidden); },
          [=, this](int expert, std::int64_t number) { return row(linear2_, expert, number, hidden, intermediate); }};
}

// ---- calls

Call::Call(const Case& which, const std::vector<int>& devices, const LayerWeights& weights, const moe::Routing& routing,
           std::uint64_t seed)
    : case_(which), devices_(devices), weights_(weights), routing_(routing) {
  const std::size_t tokens = index_of(which.problem.most_tokens);
  const std::size_t choices = tokens * index_of(which.problem.top_k);
  const std::size_t row_bytes = index_of(which.problem.hidden) * sizeof(std::uint16_t);
  for (const int device : devices) {
    Rank made;
    made.tokens_in = {device, tokens * row_bytes, "tokens"};
    made.experts = {device, choices * sizeof(std::int32_t), "experts"};
    made.weights = {device, choices * sizeof(float), "router weights"};
    made.output = {device, tokens * row_bytes, "an output"};
    ranks_.push_back(std::move(made));
  }
  fill(seed);
}

void Call::refill(const moe::Routing& routing, std::uint64_t seed) {
  routing_ = routing;
  fill(seed);
}

void Call::fill(std::uint64_t seed) {
  seed_ = seed;
  for (int rank = 0; rank < case_.ranks; ++rank) {
    Rank& filled = ranks_[index_of(rank)];
    const moe::RankRouting& routing = routing_.ranks[index_of(rank)];
    filled.tokens =
        bench::normal_pattern(index_of(routing.tokens * case_.problem.hidden), 1.0, seed * max_world + index_of(rank));
    const int device = devices_[index_of(rank)];
    copy_to(filled.tokens_in, device, std::span<const std::uint16_t>(filled.tokens));
    copy_to(filled.experts, device, std::span<const std::int32_t>(routing.experts));
    copy_to(filled.weights, device, std::span<const float>(routing.weights));
    const cuda::CurrentDevice current(device);
    cuda::check(cudaMemset(filled.output.as<void>(), poison_byte, filled.output.bytes()), "poisoning an output");
    cuda::check(cudaDeviceSynchronize(), "poisoning an output");
  }
}

moe::Operands Call::operands(int rank) const {
  const Rank& of_rank = ranks_[index_of(rank)];
  return {routing_.ranks[index_of(rank)].tokens,
          of_rank.tokens_in.as<void>(),
          of_rank.experts.as<std::int32_t>(),
          of_rank.weights.as<float>(),
          weights_.linear1(rank),
          weights_.linear2(rank),
          of_rank.output.as<void>()};
}

void Call::overwrite(int rank, std::size_t choice, std::int32_t expert, float weight) const {
  const Rank& of_rank = ranks_[index_of(rank)];
  const cuda::CurrentDevice current(devices_[index_of(rank)]);
  cuda::check(cudaMemcpy(of_rank.experts.as<std::int32_t>() + choice, &expert, sizeof(expert), cudaMemcpyHostToDevice),
              "changing an expert");
  cuda::check(cudaMemcpy(of_rank.weights.as<float>() + choice, &weight, sizeof(weight), cudaMemcpyHostToDevice),
              "changing a weight");
  cuda::check(cudaDeviceSynchronize(), "changing a choice");
}

Elements Call::read_result(int rank) const {
  const cuda::CurrentDevice current(devices_[index_of(rank)]);
  return ranks_[index_of(rank)].output.read<std::uint16_t>(index_of(case_.problem.most_tokens * case_.problem.hidden));
}

std::string Call::complaint() const {
  for (int rank = 0; rank < case_.ranks; ++rank) {
    const std::string text = complaint_about(rank);
    if (!text.empty()) {
      return fmt::format("rank {}, {}", rank, text);
    }
  }
  return "";
}

std::string Call::complaint_about(int rank) const {
  const Elements result = read_result(rank);
  std::string text = complaint_about_places(rank, result);
  // This number is checked in a second or two; in a small layer it covers all results.
  constexpr std::int64_t most_products = 40'000'000;
  const moe::Problem& problem = case_.problem;
  const std::int64_t products = 3 * problem.hidden * problem.intermediate * problem.top_k * case_.ranks;
  const auto count = index_of(std::max<std::int64_t>(most_products / products, 2));
  for (const std::int64_t token : bench::sample(routing_.ranks[index_of(rank)].tokens, count, seed_)) {
    if (text.empty()) {
      text = complaint_about_token(rank, token, result);
    }
  }
  return text;
}

bool Call::has_choices(int rank, std::int64_t token) const {
  const moe::RankRouting& routing = routing_.ranks[index_of(rank)];
  const auto first = routing.experts.begin() + static_cast<std::ptrdiff_t>(token * case_.problem.top_k);
  return std::any_of(first, first + case_.problem.top_k, [](std::int32_t expert) { return expert != moe::no_expert; });
}

std::string Call::complaint_about_places(int rank, const Elements& result) const {
  const std::int64_t hidden = case_.problem.hidden;
  for (std::int64_t token = 0; token < case_.problem.most_tokens; ++token) {
    const bool exists = token < routing_.ranks[index_of(rank)].tokens;
    const bool computed = exists && has_choices(rank, token);
    for (std::int64_t column = 0; column < hidden; ++column) {
      const std::uint16_t bits = result[index_of(token * hidden + column)];
      const bool good = computed ? std::isfinite(bench::from_bf16(bits)) : bits == (exists ? 0 : poisoned);
      if (!good) {
        return fmt::format("token {} of {}, column {}: {:#06x} where there must be {}", token,
                           routing_.ranks[index_of(rank)].tokens, column, bits,
                           computed ? "a number" : (exists ? "0: it has no choices" : "what was there before"));
      }
    }
  }
  return "";
}

std::string Call::complaint_about_token(int rank, std::int64_t token, const Elements& result) const {
  const moe::Problem& problem = case_.problem;
  const moe::RankRouting& routing = routing_.ranks[index_of(rank)];
  const auto choices = index_of(problem.top_k);
  const std::size_t first = index_of(token) * choices;
  const auto hidden = index_of(problem.hidden);
  const moe::ReferenceToken of_token{
      std::span<const std::uint16_t>(ranks_[index_of(rank)].tokens).subspan(index_of(token) * hidden, hidden),
      std::span<const std::int32_t>(routing.experts).subspan(first, choices),
      std::span<const float>(routing.weights).subspan(first, choices), rank};
  const std::vector<std::int64_t> columns =
      bench::sample(problem.hidden, 40, seed_ + bench::random_bits(seed_, index_of(token)) % 1000);
  const moe::ReferenceResult expected =
      moe::layer_columns(problem, of_token, columns, weights_.host(), case_.plan.combine);
  std::vector<float> seen;
  for (const std::int64_t column : columns) {
    seen.push_back(bench::from_bf16(result[index_of(token) * hidden + index_of(column)]));
  }
  const double error = moe::largest_error(seen, expected);
  if (error <= bench::most_roundings) {
    return "";
  }
  return fmt::format("token {} of {}: wrong by {} roundings; column {} is {}, expected {}", token, routing.tokens,
                     error, columns[0], seen[0], expected.expected[0]);
}

// ---- ranks

Ranks::Ranks(const Case& which, const std::vector<int>& devices, std::chrono::microseconds time_out)
    : devices_(devices),
      virtual_(devices.size() > 1 && devices[0] == devices[1]),
      heap_(PeerAccessHeap::create(devices, moe::heap_bytes(which.problem, which.ranks))) {
  for (int rank = 0; rank < count(); ++rank) {
    if (rank == 0 || !virtual_) {
      streams_.push_back(std::make_unique<cuda::Stream>(devices[index_of(rank)]));
    }
    handles_.push_back(std::make_unique<MoeLayer>(heap_.rank(rank), which.problem, which.plan, time_out));
  }
}

std::vector<MoeLayer*> Ranks::handles() const {
  std::vector<MoeLayer*> handles;
  for (const auto& handle : handles_) {
    handles.push_back(handle.get());
  }
  return handles;
}

void Ranks::enqueue(const Call& call) {
  if (!virtual_) {
    for (int rank = 0; rank < count(); ++rank) {
      enqueue_rank(call, rank);
    }
    return;
  }
  std::vector<moe::Operands> operands;
  for (int rank = 0; rank < count(); ++rank) {
    operands.push_back(call.operands(rank));
  }
  MoeLayer::launch_together(handles(), operands, stream(0));
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

}  // namespace xstage::moe_layer_test
