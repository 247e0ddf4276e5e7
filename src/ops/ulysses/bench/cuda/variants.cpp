#include "ops/ulysses/bench/cuda/variants.hpp"

#include <algorithm>
#include <chrono>

#include "bench/cuda/operand_memory.hpp"
#include "bench/plan_options.hpp"

namespace xstage::bench {

namespace {

constexpr int parts = 3;

/// Handles of ranks that do not communicate: each has a heap of its own, and as many rows as it owns.
template <typename ProblemOfRank>
OperationHandles<Gemm> make_local_gemms(const UlyssesResources& resources, const ProblemOfRank& problem_of) {
  OperationHandles<Gemm> handles;
  for (int rank = 0; rank < resources.ranks.count(); ++rank) {
    const int device = resources.ranks.device(rank);
    const gemm::Problem problem = problem_of(resources.cell, rank);
    const Plan plan = gemm::make_plan(problem, 1, multiprocessors_of(device));
    handles.heaps.push_back(PeerAccessHeap::create({device}, gemm::heap_bytes(problem, plan, 1)));
    handles.of_rank.push_back(std::make_unique<Gemm>(handles.heaps.back().rank(0), problem, plan, time_out));
  }
  return handles;
}

OperationHandles<Attention> make_local_attentions(const UlyssesResources& resources) {
  const attention::Problem problem = problem_of_rank(attention_of(resources.cell));
  OperationHandles<Attention> handles;
  for (const int device : resources.ranks.devices()) {
    const attention::Plan plan = attention::make_plan(problem, 1, multiprocessors_of(device));
    handles.heaps.push_back(PeerAccessHeap::create({device}, attention::heap_bytes(problem, 1)));
    handles.of_rank.push_back(std::make_unique<Attention>(handles.heaps.back().rank(0), problem, plan, time_out));
  }
  return handles;
}

SharedLayer make_shared_layer(const UlyssesResources& resources) {
  const int world = resources.ranks.count();
  const int multiprocessors = multiprocessors_of(resources.ranks.device(0));
  const gemm::Problem projection = projection_of(resources.cell).problem;
  const Plan projection_plan = gemm::make_plan(projection, world, multiprocessors);
  const attention::Problem attention = attention_of(resources.cell).problem;
  const attention::Plan attention_plan = attention::make_plan(attention, world, multiprocessors);
  SharedLayer layer;
  layer.heap = PeerAccessHeap::create(resources.ranks.devices(), gemm::heap_bytes(projection, projection_plan, world) +
                                                                     attention::heap_bytes(attention, world));
  for (int rank = 0; rank < world; ++rank) {
    HeapRank& heap = layer.heap->rank(rank);
    layer.projection.push_back(std::make_unique<Gemm>(heap, projection, projection_plan, time_out));
    layer.attention.push_back(std::make_unique<Attention>(heap, attention, attention_plan, time_out));
  }
  return layer;
}

template <typename Operation>
void check_all(const std::vector<std::unique_ptr<Operation>>& handles) {
  std::for_each(handles.begin(), handles.end(), [](const std::unique_ptr<Operation>& handle) { handle->check(); });
}

}  // namespace

UlyssesVariants::UlyssesVariants(const UlyssesResources& resources, const std::vector<UlyssesVariant>& entries)
    : resources_(resources) {
  for (const UlyssesVariant& entry : entries) {
    if (entry.among_ranks && !shared_.heap) {
      shared_ = make_shared_layer(resources);
    }
    if (entry.projection && !entry.among_ranks && projection_.of_rank.empty()) {
      projection_ = make_local_gemms(resources, local_projection_of);
    }
    if (entry.attention && !entry.among_ranks && attention_.of_rank.empty()) {
      attention_ = make_local_attentions(resources);
    }
    if (entry.output_projection && output_projection_.of_rank.empty()) {
      output_projection_ = make_local_gemms(resources, output_projection_of);
    }
  }
}

void UlyssesVariants::project_output(const void* attended, int rank, int set, cudaStream_t stream) const {
  gemm::Operands operands;
  operands.a = attended;
  operands.b = resources_.operands.output_weights(rank, set);
  operands.output = resources_.operands.result(rank).as<void>();
  output_projection_.of_rank[static_cast<std::size_t>(rank)]->launch(operands, stream);
}

void UlyssesVariants::enqueue_compute(const UlyssesVariant& entry, int rank, int set, cudaStream_t stream) const {
  const UlyssesOperands& operands = resources_.operands;
  const auto index = static_cast<std::size_t>(rank);
  if (entry.projection) {
    gemm::Operands addresses;
    addresses.a = operands.states(rank, set);
    addresses.b = operands.projection_weights(rank, set);
    addresses.output = operands.projected(rank);
    projection_.of_rank[index]->launch(addresses, stream);
  }
  if (entry.attention) {
    attention::Operands addresses;
    addresses.query = operands.projected_part(rank, 0);
    addresses.key = operands.projected_part(rank, 1);
    addresses.value = operands.projected_part(rank, 2);
    addresses.output = operands.attended(rank);
    attention_.of_rank[index]->launch(addresses, stream);
  }
  if (entry.output_projection) {
    project_output(operands.attended(rank), rank, set, stream);
  }
}

void UlyssesVariants::enqueue_among_ranks(bool by_flags, int rank, int set, cudaStream_t stream) const {
  Gemm& projection = *shared_.projection[static_cast<std::size_t>(rank)];
  gemm::Operands states;
  states.a = resources_.operands.states(rank, set);
  states.b = resources_.operands.projection_weights(rank, set);
  projection.launch(states, stream, by_flags ? Completion::sent : Completion::arrived);
  attention::Operands heads;
  heads.query = projection.output(0);
  heads.key = projection.output(1);
  heads.value = projection.output(2);
  if (by_flags) {
    heads.arrivals = {projection.arrivals(0), projection.arrivals(1), projection.arrivals(2)};
  }
  Attention& attention = *shared_.attention[static_cast<std::size_t>(rank)];
  attention.launch(heads, stream, Completion::arrived);
  project_output(attention.output(), rank, set, stream);
}

void UlyssesVariants::enqueue(const UlyssesVariant& entry, int rank, int call, cudaStream_t stream) const {
  const int set = resources_.operands.set_of(call);
  if (entry.among_ranks) {
    enqueue_among_ranks(entry.by_flags, rank, set, stream);
  } else {
    enqueue_compute(entry, rank, set, stream);
  }
}

void UlyssesVariants::check(bool among_ranks) const {
  if (among_ranks) {
    check_all(shared_.projection);
    check_all(shared_.attention);
  } else {
    check_all(projection_.of_rank);
    check_all(attention_.of_rank);
  }
  check_all(output_projection_.of_rank);
}

Json UlyssesVariants::plans_of(const UlyssesVariant& entry) const {
  Json plans = Json::object();
  if (entry.projection) {
    const Gemm& first = entry.among_ranks ? *shared_.projection.front() : *projection_.of_rank.front();
    plans["projection"] = plan_json(first.plan());
  }
  if (entry.attention) {
    const Attention& first = entry.among_ranks ? *shared_.attention.front() : *attention_.of_rank.front();
    plans["attention"] = plan_json(first.plan());
  }
  if (entry.output_projection) {
    plans["output_projection"] = plan_json(output_projection_.of_rank.front()->plan());
  }
  return plans;
}

Variant UlyssesVariants::variant(const UlyssesVariant& entry) {
  Variant variant;
  variant.name = entry.name;
  variant.enqueue = [this, entry](int rank, int call, cudaStream_t stream) { enqueue(entry, rank, call, stream); };
  variant.check = [this, among_ranks = entry.among_ranks] { check(among_ranks); };
  variant.l2 = resources_.operands.l2_policy();
  variant.plans["plan"] = plans_of(entry);
  return variant;
}

void UlyssesVariants::run_once_with_waits(int call) const {
  for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
    const cuda::CurrentDevice current(resources_.ranks.device(rank));
    enqueue_among_ranks(false, rank, resources_.operands.set_of(call), resources_.ranks.stream(rank));
  }
  resources_.ranks.synchronise();
  check(true);
}

const void* UlyssesVariants::projected(int rank, int part) const {
  return shared_.projection[static_cast<std::size_t>(rank)]->output(part);
}

const void* UlyssesVariants::attended(int rank) const {
  return shared_.attention[static_cast<std::size_t>(rank)]->output();
}

void UlyssesVariants::poison_results() const {
  const UlyssesCell& cell = resources_.cell;
  const auto bytes_of = [&](std::int64_t rows, int heads) {
    return static_cast<std::size_t>(rows * heads * ulysses_head_dim) * element_bytes;
  };
  for (int rank = 0; rank < cell.ranks; ++rank) {
    const int device = resources_.ranks.device(rank);
    const auto index = static_cast<std::size_t>(rank);
    for (int part = 0; part < parts; ++part) {
      poison(device, shared_.projection[index]->output(part), bytes_of(cell.tokens, cell.heads / cell.ranks));
    }
    poison(device, shared_.attention[index]->output(), bytes_of(own_tokens(cell, rank), cell.heads));
    const cuda::DeviceBuffer& result = resources_.operands.result(rank);
    poison(device, result.as<void>(), result.bytes());
  }
}

}  // namespace xstage::bench
