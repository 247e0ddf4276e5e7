#include "ops/moe/test/gpu/exchange_support.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "bench/random_bits.hpp"
#include "ops/moe/bench/reference.hpp"

namespace xstage::moe_test {

namespace {

using kernels::MoeExchangePad;
using kernels::MoeOrigin;
using kernels::MoeRoute;

constexpr int poison_byte = 0xFF;
constexpr std::uint16_t poisoned = 0xFFFF;

std::size_t padded(std::size_t bytes) {
  constexpr std::size_t alignment = HeapRank::default_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

std::size_t experts_of(const Case& which) { return index_of(which.ranks * which.experts_per_rank); }
std::size_t count_bytes(const Case& which) {
  return index_of(which.ranks) * index_of(kernels::MoeCountLine::words(which.ranks * which.experts_per_rank)) * 8;
}
std::size_t route_bytes(const Case& which) { return index_of(which.ranks) * which.most_choices() * sizeof(MoeRoute); }

std::size_t arrival_words(const Case& which, int blocks) { return MoeExchangePad::arrival_words(which.ranks, blocks); }

template <typename Value>
cuda::DeviceBuffer on_device(int device, const std::vector<Value>& values, std::size_t least) {
  cuda::DeviceBuffer buffer(device, std::max(least, values.size()) * sizeof(Value), "an operand of a test");
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), values.data(), values.size() * sizeof(Value), cudaMemcpyHostToDevice),
              "copying an operand");
  cuda::check(cudaDeviceSynchronize(), "copying an operand");
  return buffer;
}

/// Any finite bf16 of moderate size, and both zeros.
std::uint16_t moderate_bf16(std::uint64_t bits) {
  const std::uint64_t exponent = 120 + (bits >> 20U) % 12;
  const std::uint64_t value = (bits & 0x8000U) | (exponent << 7U) | (bits & 0x7FU);
  return static_cast<std::uint16_t>((bits >> 40U) % 32 == 0 ? bits & 0x8000U : value);
}

}  // namespace

// ---- cases

std::string Case::text() const {
  return fmt::format(
      "{} ranks, hidden {}, {} experts a rank, top {}, at most {} tokens; dispatch senders {} copiers {} stages {} "
      "piece {} under way {} told together {} counted_by_all {}; combine senders {} stages {} piece {} groups {} under "
      "way {} told together {} sender groups {} partial sums {} enters {} overlaps {}",
      ranks, hidden, experts_per_rank, top_k, most_tokens, dispatch.senders, dispatch.copiers, dispatch.stages,
      dispatch.piece_bytes, dispatch.under_way, dispatch.told_together, dispatch.counted_by_all, combine.senders,
      combine.stages, combine.piece_bytes, combine.groups, combine.under_way, combine.told_together,
      combine.sender_groups, partial_sums, combine_enters, combine_overlaps);
}

std::size_t Case::most_rows() const {
  return static_cast<std::size_t>(kernels::most_moe_rows(ranks, most_tokens, top_k, experts_per_rank));
}

Case random_case(int ranks, Random& random) {
  Case which;
  which.ranks = ranks;
  which.hidden = random.of({64, 128, 192, 1088, 2048, 7168});
  which.experts_per_rank = random.of({1, 2, 7, 32, which.hidden > 1000 ? 16 : random.between(3, 256)});
  which.top_k = std::min(random.of({1, 2, 6, 8, 16}), ranks * which.experts_per_rank);
  constexpr std::int64_t most_elements = 6'000'000;
  const std::int64_t most = most_elements / (ranks * which.top_k * which.hidden);
  which.most_tokens = random.between(1, static_cast<int>(std::clamp<std::int64_t>(most, 1, 600)));
  which.dispatch.senders = random.of({0, 1, 3});
  which.dispatch.copiers = random.of({0, 1, 2, 7});
  which.dispatch.stages = random.of({0, 3, 5});
  which.dispatch.piece_bytes = random.of({0, 128, 1040, 16384});
  which.dispatch.under_way = random.of({0, 1, 4});
  which.dispatch.told_together = random.of({0, 1, 1000});
  which.dispatch.counted_by_all = random.of({0, -1, 300});
  which.combine.senders = random.of({0, 1, 3, 8});
  which.combine.stages = random.of({0, 3, 9});
  which.combine.piece_bytes = random.of({0, 128, 1040, 16384});
  which.combine.groups = random.of({0, 1, 2, 12});
  which.combine.under_way = random.of({0, 1, 3});
  which.combine.told_together = random.of({0, 1, 1000});
  which.combine.sender_groups = random.of({0, 1, 3, 8});
  which.partial_sums = random.between(0, 1) == 0;
  which.combine_enters = random.between(0, 1) == 0;
  which.combine_overlaps = random.between(0, 3) != 0;
  return which;
}

moe::Routing random_routing(const Case& which, Random& random) {
  moe::RoutingRequest request;
  request.world = which.ranks;
  request.experts_per_rank = which.experts_per_rank;
  request.top_k = which.top_k;
  const int most = static_cast<int>(which.most_tokens);
  for (int rank = 0; rank < which.ranks; ++rank) {
    request.tokens.push_back(random.of({0, 1, most, most, random.between(0, most), random.between(0, most)}));
  }
  request.skew = random.of({moe::Skew::balanced, moe::Skew::zipf, moe::Skew::one_expert});
  request.masked_tokens = random.of({moe::Share{0, 1}, moe::Share{1, 5}, moe::Share{1, 1}});
  request.masked_choices = random.of({moe::Share{0, 1}, moe::Share{1, 3}});
  if (random.between(0, 3) != 0) {
    request.masked_tokens = {0, 1};
  }
  request.seed = static_cast<std::uint64_t>(random.between(1, 1 << 20));
  moe::Routing routing = moe::make_routing(request);
  // An expert may stand twice among a token's choices.
  for (moe::RankRouting& rank : routing.ranks) {
    for (std::int64_t token = 0; which.top_k > 1 && token < rank.tokens; token += 5) {
      const auto first = static_cast<std::size_t>(token * which.top_k);
      rank.experts[first + 1] = rank.experts[first];
    }
  }
  return routing;
}

// ---- one rank

std::size_t ExchangeRank::heap_bytes(const Case& which, int blocks) {
  return padded(kernels::CollectiveHandle::pad_bytes(arrival_words(which, blocks))) +
         padded(which.most_rows() * which.row_bytes()) + padded(count_bytes(which)) + padded(route_bytes(which)) +
         padded(which.most_choices() * which.row_bytes());
}

ExchangeRank::ExchangeRank(HeapRank& heap, const Case& which, int blocks, std::chrono::microseconds time_out)
    : case_(which), blocks_(blocks), call_(heap, "moe exchange", arrival_words(which, blocks), time_out) {
  tokens_ = call_.take("tokens", which.most_rows() * which.row_bytes());
  counts_ = call_.take("counts", count_bytes(which));
  routes_ = call_.take("routes", route_bytes(which));
  slots_ = call_.take("slots", which.most_choices() * which.row_bytes());
  call_.finish_setup();
  const int device = heap.device();
  const cuda::CurrentDevice current(device);
  const std::size_t experts = index_of(which.experts_per_rank);
  expert_counts_ = {device, experts * 4, "counts"};
  first_block_ = {device, (experts + 1) * 4, "first blocks"};
  weights_ = {device, which.most_rows() * 4, "weights"};
  origins_ = {device, which.most_rows() * sizeof(MoeOrigin), "origins"};
  block_counts_ = {device, index_of(blocks) * (experts_of(which) + 3) * 4, "counts of CTAs"};
  totals_ = {device, 2 * index_of(kernels::total_words(which.ranks * which.experts_per_rank)) * 4,
             "counts of all CTAs"};
  cuda::check(cudaMemset(totals_.as<void>(), 0, totals_.bytes()), "clearing totals");
  cuda::check(cudaDeviceSynchronize(), "clearing totals");
  tokens_of_ = {device, max_world * 4, "tokens of ranks"};
  void* report = nullptr;
  cuda::check(cudaHostAlloc(&report, sizeof(kernels::RoutingReport), cudaHostAllocPortable | cudaHostAllocMapped),
              "allocating a report");
  report_.reset(static_cast<kernels::RoutingReport*>(report));
  clear_report();
  fill_exchange(dispatch_.exchange);
  fill_exchange(combine_.exchange);
  const PeerView tokens = heap.view(tokens_);
  const PeerView counts = heap.view(counts_);
  const PeerView slots = heap.view(slots_);
  for (int rank = 0; rank < which.ranks; ++rank) {
    dispatch_.peer_tokens[rank] = tokens.base[rank];
    dispatch_.counts[rank] = reinterpret_cast<std::uint64_t*>(counts.base[rank]);
    combine_.slots[rank] = slots.base[rank];
  }
  dispatch_.block_counts = block_counts_.as<std::uint32_t>();
  dispatch_.totals = totals_.as<std::uint32_t>();
  dispatch_.report = report_.get();
  combine_.enters = which.combine_enters ? 1 : 0;
  combine_.overlaps = which.combine_overlaps ? 1 : 0;
  kernels::plan_dispatch(dispatch_, which.dispatch);
  combine_.partial_sums = which.partial_sums ? 1 : 0;
  kernels::plan_combine(combine_, which.combine);
  kernels::load_dispatch();
  kernels::load_combine();
}

void ExchangeRank::fill_exchange(kernels::MoeExchange& exchange) {
  exchange.call = call_.parameters();
  exchange.most_tokens = static_cast<std::int32_t>(case_.most_tokens);
  exchange.top_k = case_.top_k;
  exchange.experts_per_rank = case_.experts_per_rank;
  exchange.row_bytes = static_cast<std::int32_t>(case_.row_bytes());
  const PeerView routes = heap().view(routes_);
  for (int rank = 0; rank < case_.ranks; ++rank) {
    exchange.routes[rank] = reinterpret_cast<MoeRoute*>(routes.base[rank]);
  }
  exchange.tokens_of = tokens_of_.as<std::int32_t>();
  exchange.rows.tokens = static_cast<char*>(heap().local(tokens_));
  exchange.rows.counts = expert_counts_.as<std::int32_t>();
  exchange.rows.first_block = first_block_.as<std::int32_t>();
  exchange.rows.weights = weights_.as<float>();
  exchange.rows.origins = origins_.as<MoeOrigin>();
}

void ExchangeRank::set_operands(std::int64_t tokens, const void* tokens_in, const std::int32_t* experts,
                                const float* weights, void* results, void* output) {
  for (kernels::MoeExchange* exchange : {&dispatch_.exchange, &combine_.exchange}) {
    exchange->tokens = static_cast<std::int32_t>(tokens);
    exchange->rows.results = static_cast<char*>(results);
  }
  dispatch_.tokens_in = static_cast<const char*>(tokens_in);
  dispatch_.experts = experts;
  dispatch_.router_weights = weights;
  combine_.output = static_cast<char*>(output);
}

void ExchangeRank::enqueue_dispatch(cudaStream_t stream) {
  const cuda::CurrentDevice current(heap().device());
  prepare();
  kernels::launch_dispatch(dispatch_, blocks_, stream);
}

void ExchangeRank::enqueue_combine(cudaStream_t stream) {
  const cuda::CurrentDevice current(heap().device());
  prepare();
  kernels::launch_combine(combine_, blocks_, stream);
}

void ExchangeRank::poison(cudaStream_t stream) const {
  const cuda::CurrentDevice current(heap().device());
  const auto fill = [stream](void* address, std::size_t bytes) {
    cuda::check(cudaMemsetAsync(address, poison_byte, bytes, stream), "poisoning a buffer");
  };
  for (const SymmetricBuffer& buffer : {tokens_, slots_}) {
    fill(heap().local(buffer), buffer.bytes);
  }
  for (const cuda::DeviceBuffer* buffer :
       {&expert_counts_, &first_block_, &weights_, &origins_, &block_counts_, &tokens_of_}) {
    fill(buffer->as<void>(), buffer->bytes());
  }
}

void ExchangeRank::restore() {
  call_.restore();
  const cuda::CurrentDevice current(heap().device());
  // Clears words with the numbers of calls, which occur again.
  cuda::check(cudaMemset(heap().local(counts_), 0, counts_.bytes), "clearing counts");
  cuda::check(cudaMemset(totals_.as<void>(), 0, totals_.bytes()), "clearing counts");
  cuda::check(cudaDeviceSynchronize(), "clearing counts");
  clear_report();
}

// ---- all ranks

namespace {

int blocks_of(const std::vector<int>& devices, bool are_virtual) {
  const int multiprocessors = kernels::multiprocessors(devices[0]);
  return are_virtual ? multiprocessors / static_cast<int>(devices.size()) : multiprocessors;
}

bool share_a_gpu(const std::vector<int>& devices) { return devices.size() > 1 && devices[0] == devices[1]; }

}  // namespace

ExchangeRanks::ExchangeRanks(const Case& which, const std::vector<int>& devices, std::chrono::microseconds time_out)
    : devices_(devices),
      virtual_(share_a_gpu(devices)),
      heap_(PeerAccessHeap::create(devices, ExchangeRank::heap_bytes(which, blocks_of(devices, virtual_)))) {
  for (int rank = 0; rank < count(); ++rank) {
    if (rank == 0 || !virtual_) {
      streams_.push_back(std::make_unique<cuda::Stream>(device(rank)));
    }
    ranks_.push_back(std::make_unique<ExchangeRank>(heap_.rank(rank), which, blocks_of(devices, virtual_), time_out));
  }
}

template <class Launch>
const Launch* ExchangeRanks::upload(const std::vector<Launch>& launches) {
  const std::size_t bytes = launches.size() * sizeof(Launch);
  wait();  // the launch before this one may still read its parameters
  if (launches_.bytes() < bytes) {
    launches_ = cuda::DeviceBuffer(device(0), bytes, "parameters of virtual ranks");
  }
  cuda::check(cudaMemcpy(launches_.as<void>(), launches.data(), bytes, cudaMemcpyHostToDevice),
              "copying the parameters of virtual ranks");
  return launches_.as<Launch>();
}

void ExchangeRanks::dispatch() {
  std::vector<kernels::DispatchLaunch> launches;
  for (int rank = 0; rank < count(); ++rank) {
    if (!virtual_) {
      (*this)[rank].enqueue_dispatch(stream(rank));
      continue;
    }
    (*this)[rank].prepare();
    launches.push_back((*this)[rank].dispatch());
  }
  if (virtual_) {
    const cuda::CurrentDevice current(device(0));
    kernels::launch_virtual_dispatch(upload(launches), launches[0], count(), (*this)[0].blocks(), stream(0));
  }
}

void ExchangeRanks::combine() {
  std::vector<kernels::CombineLaunch> launches;
  for (int rank = 0; rank < count(); ++rank) {
    if (!virtual_) {
      (*this)[rank].enqueue_combine(stream(rank));
      continue;
    }
    (*this)[rank].prepare();
    launches.push_back((*this)[rank].combine());
  }
  if (virtual_) {
    const cuda::CurrentDevice current(device(0));
    kernels::launch_virtual_combine(upload(launches), launches[0], count(), (*this)[0].blocks(), stream(0));
  }
}

void ExchangeRanks::wait() const {
  for (const auto& stream : streams_) {
    cuda::check(cudaStreamSynchronize(stream->get()), "waiting for a rank");
  }
}

void ExchangeRanks::finish() const {
  wait();
  for (const auto& rank : ranks_) {
    rank->check();
  }
}

// ---- one call

Call::Call(const Case& which, const std::vector<int>& devices, const moe::Routing& routing, std::uint64_t seed)
    : case_(which), devices_(devices), routing_(routing), seed_(seed) {
  for (int rank = 0; rank < which.ranks; ++rank) {
    const int device = devices[index_of(rank)];
    const moe::RankRouting& of_rank = routing.ranks[index_of(rank)];
    Rank made;
    made.tokens.resize(static_cast<std::size_t>(of_rank.tokens) * which.row_elements());
    for (std::size_t index = 0; index < made.tokens.size(); ++index) {
      made.tokens[index] =
          static_cast<std::uint16_t>(bench::random_bits(seed * max_world + index_of(rank), index) % poisoned);
    }
    made.tokens_in = on_device(device, made.tokens, 8);
    made.experts = on_device(device, of_rank.experts, 1);
    made.weights = on_device(device, of_rank.weights, 1);
    made.results = {device, which.most_rows() * which.row_bytes(), "results of experts"};
    made.output = {device, static_cast<std::size_t>(which.most_tokens) * which.row_bytes(), "an output"};
    made.rows = {device, which.most_rows() * which.row_bytes(), "a copy of rows"};
    made.row_weights = {device, which.most_rows() * 4, "a copy of weights"};
    made.origins = {device, which.most_rows() * sizeof(MoeOrigin), "a copy of origins"};
    made.counts = {device, index_of(which.experts_per_rank) * 4, "a copy of counts"};
    made.first_block = {device, index_of(which.experts_per_rank + 1) * 4, "a copy of first blocks"};
    ranks_.push_back(std::move(made));
  }
  fill_results();
}

std::uint16_t Call::result_element(const moe::Choice& choice, std::size_t column) const {
  const auto number =
      static_cast<std::uint64_t>((choice.token * case_.top_k + choice.choice) * max_world + choice.rank);
  return moderate_bf16(bench::random_bits(seed_ + number * 7919, column));
}

/// Rows of Linear-2 for the routing, NaN in padding.
void Call::fill_results() {
  for (int rank = 0; rank < case_.ranks; ++rank) {
    Elements results(case_.most_rows() * case_.row_elements(), poisoned);
    std::size_t block = 0;
    for (const std::vector<moe::Choice>& expert : moe::dispatched(routing_, rank)) {
      std::size_t row = block * kernels::moe_block_rows;
      for (const moe::Choice& choice : expert) {
        for (std::size_t column = 0; column < case_.row_elements(); ++column) {
          results[row * case_.row_elements() + column] = result_element(choice, column);
        }
        ++row;
      }
      block += (expert.size() + kernels::moe_block_rows - 1) / kernels::moe_block_rows;
    }
    const cuda::CurrentDevice current(devices_[index_of(rank)]);
    cuda::check(cudaMemcpy(ranks_[index_of(rank)].results.as<void>(), results.data(), results.size() * 2,
                           cudaMemcpyHostToDevice),
                "copying results");
    cuda::check(cudaDeviceSynchronize(), "copying results");
  }
}

void Call::overwrite(int rank, std::size_t choice, std::int32_t expert, float weight, const moe::Routing& routing) {
  const Rank& of_rank = ranks_[index_of(rank)];
  cuda::check(cudaMemcpy(of_rank.experts.as<std::int32_t>() + choice, &expert, 4, cudaMemcpyHostToDevice),
              "changing an expert");
  cuda::check(cudaMemcpy(of_rank.weights.as<float>() + choice, &weight, 4, cudaMemcpyHostToDevice),
              "changing a weight");
  routing_ = routing;
  fill_results();
}

void Call::set_operands(ExchangeRanks& ranks) const {
  for (int rank = 0; rank < case_.ranks; ++rank) {
    const Rank& of_rank = ranks_[index_of(rank)];
    ranks[rank].set_operands(routing_.ranks[index_of(rank)].tokens, of_rank.tokens_in.as<void>(),
                             of_rank.experts.as<std::int32_t>(), of_rank.weights.as<float>(),
                             of_rank.results.as<void>(), of_rank.output.as<void>());
  }
}

void Call::enqueue(ExchangeRanks& ranks) {
  set_operands(ranks);
  for (int rank = 0; rank < case_.ranks; ++rank) {
    const cuda::CurrentDevice current(devices_[index_of(rank)]);
    const cuda::DeviceBuffer& output = ranks_[index_of(rank)].output;
    ranks[rank].poison(ranks.stream(rank));
    cuda::check(cudaMemsetAsync(output.as<void>(), poison_byte, output.bytes(), ranks.stream(rank)),
                "poisoning an output");
  }
  ranks.dispatch();
  for (int rank = 0; rank < case_.ranks; ++rank) {
    collect(ranks, rank);
  }
  ranks.combine();
}

void Call::collect(ExchangeRanks& ranks, int rank) const {
  const cuda::CurrentDevice current(devices_[index_of(rank)]);
  const Rank& of_rank = ranks_[index_of(rank)];
  const kernels::MoeRows& rows = ranks[rank].dispatch().exchange.rows;
  const auto copy = [&](const cuda::DeviceBuffer& to, const void* from) {
    cuda::check(cudaMemcpyAsync(to.as<void>(), from, to.bytes(), cudaMemcpyDeviceToDevice, ranks.stream(rank)),
                "copying what dispatch left");
  };
  copy(of_rank.rows, rows.tokens);
  copy(of_rank.row_weights, rows.weights);
  copy(of_rank.origins, rows.origins);
  copy(of_rank.counts, rows.counts);
  copy(of_rank.first_block, rows.first_block);
}

void Call::expect_right() const {
  for (int rank = 0; rank < case_.ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const cuda::CurrentDevice current(devices_[index_of(rank)]);
    expect_right_rows(rank);
    expect_right_output(rank);
  }
}

void Call::expect_right_rows(int rank) const {
  const Rank& of_rank = ranks_[index_of(rank)];
  const std::size_t width = case_.row_elements();
  const std::size_t experts = index_of(case_.experts_per_rank);
  Elements rows(case_.most_rows() * width, poisoned);
  const auto weights = of_rank.row_weights.read<float>(case_.most_rows());
  const auto origins = of_rank.origins.read<MoeOrigin>(case_.most_rows());
  const auto counts = of_rank.counts.read<std::int32_t>(experts);
  const auto first_block = of_rank.first_block.read<std::int32_t>(experts + 1);
  const auto dispatched = moe::dispatched(routing_, rank);
  std::size_t block = 0;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    ASSERT_EQ(first_block[expert], static_cast<std::int32_t>(block)) << "expert " << expert;
    ASSERT_EQ(counts[expert], static_cast<std::int32_t>(dispatched[expert].size())) << "expert " << expert;
    std::size_t row = block * kernels::moe_block_rows;
    for (const moe::Choice& choice : dispatched[expert]) {
      const auto place = static_cast<std::size_t>(choice.token * case_.top_k + choice.choice);
      ASSERT_EQ(origins[row].rank, choice.rank) << "row " << row;
      ASSERT_EQ(origins[row].choice, static_cast<std::int32_t>(place)) << "row " << row;
      ASSERT_EQ(weights[row], routing_.ranks[index_of(choice.rank)].weights[place]) << "row " << row;
      const Elements& tokens = ranks_[index_of(choice.rank)].tokens;
      std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(choice.token) * width), width,
                  rows.begin() + static_cast<std::ptrdiff_t>(row * width));
      ++row;
    }
    block += (dispatched[expert].size() + kernels::moe_block_rows - 1) / kernels::moe_block_rows;
  }
  ASSERT_EQ(first_block[experts], static_cast<std::int32_t>(block));
  const Elements seen = of_rank.rows.read<std::uint16_t>(rows.size());
  const auto differs = std::mismatch(seen.begin(), seen.end(), rows.begin()).first;
  EXPECT_TRUE(differs == seen.end()) << "row " << static_cast<std::size_t>(differs - seen.begin()) / width
                                     << ", column " << static_cast<std::size_t>(differs - seen.begin()) % width;
}

/// A partial sum takes the place of the first row in it.
Elements Call::expected_sum(int rank, std::int64_t token) const {
  std::vector<int> owners;     // of the rows below
  std::vector<Elements> rows;  // of one choice each, or of all choices of a peer
  for (int choice = 0; choice < case_.top_k; ++choice) {
    const auto place = static_cast<std::size_t>(token * case_.top_k + choice);
    const std::int32_t expert = routing_.ranks[index_of(rank)].experts[place];
    if (expert == moe::no_expert) {
      continue;
    }
    const int owner = expert / case_.experts_per_rank;
    auto group = std::find(owners.begin(), owners.end(), owner) - owners.begin();
    if (!case_.partial_sums || owner == rank || index_of(static_cast<int>(group)) == owners.size()) {
      group = static_cast<std::ptrdiff_t>(owners.size());
      owners.push_back(owner);
      rows.emplace_back();
    }
    for (std::size_t column = 0; column < case_.row_elements(); ++column) {
      rows[index_of(static_cast<int>(group))].push_back(result_element({rank, token, choice}, column));
    }
  }
  const std::size_t width = case_.row_elements();
  Elements summands;
  for (const Elements& of_group : rows) {
    const Elements summand = of_group.size() == width ? of_group : moe::combine_rows(of_group, of_group.size() / width);
    summands.insert(summands.end(), summand.begin(), summand.end());
  }
  return rows.empty() ? Elements(width, 0) : moe::combine_rows(summands, rows.size());
}

void Call::expect_right_output(int rank) const {
  const moe::RankRouting& routing = routing_.ranks[index_of(rank)];
  const std::size_t width = case_.row_elements();
  Elements expected(static_cast<std::size_t>(case_.most_tokens) * width, poisoned);
  for (std::int64_t token = 0; token < routing.tokens; ++token) {
    const Elements sum = expected_sum(rank, token);
    std::copy(sum.begin(), sum.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * width));
  }
  const Elements seen = ranks_[index_of(rank)].output.read<std::uint16_t>(expected.size());
  const auto differs = std::mismatch(seen.begin(), seen.end(), expected.begin()).first;
  EXPECT_TRUE(differs == seen.end()) << "token " << static_cast<std::size_t>(differs - seen.begin()) / width
                                     << ", column " << static_cast<std::size_t>(differs - seen.begin()) % width;
}

}  // namespace xstage::moe_test
