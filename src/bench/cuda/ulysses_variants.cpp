#include "bench/cuda/ulysses_variants.hpp"

#include <algorithm>
#include <chrono>

#include "kernels/collective/handle.hpp"

namespace xstage::bench {

namespace {

/// All ranks of a benchmark start together, and few calls take a tenth of that: what waits longer waits in vain.
constexpr std::chrono::seconds time_out{5};

constexpr std::int64_t element_bytes = 2;
constexpr int parts = 3;

/// No rank knows of another: each has a heap of its own, and as many rows as it owns.
template <typename ProblemOfRank>
OperationHandles<Gemm> make_local_gemms(const UlyssesResources& resources, const ProblemOfRank& problem_of) {
  OperationHandles<Gemm> handles;
  for (int rank = 0; rank < resources.ranks.count(); ++rank) {
    const int device = resources.ranks.device(rank);
    const gemm::Problem problem = problem_of(resources.cell, rank);
    const Plan plan = gemm::make_plan(problem, 1, kernels::multiprocessors(device));
    handles.heaps.push_back(PeerAccessHeap::create({device}, gemm::heap_bytes(problem, plan, 1)));
    handles.of_rank.push_back(std::make_unique<Gemm>(handles.heaps.back().rank(0), problem, plan, time_out));
  }
  return handles;
}

OperationHandles<Attention> make_local_attentions(const UlyssesResources& resources) {
  const attention::Problem problem = problem_of_rank(attention_of(resources.cell));
  OperationHandles<Attention> handles;
  for (const int device : resources.ranks.devices()) {
    const attention::Plan plan = attention::make_plan(problem, 1, kernels::multiprocessors(device));
    handles.heaps.push_back(PeerAccessHeap::create({device}, attention::heap_bytes(problem, 1)));
    handles.of_rank.push_back(std::make_unique<Attention>(handles.heaps.back().rank(0), problem, plan, time_out));
  }
  return handles;
}

SharedLayer make_shared_layer(const UlyssesResources& resources) {
  const int world = resources.ranks.count();
  const int multiprocessors = kernels::multiprocessors(resources.ranks.device(0));
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

UlyssesVariants::UlyssesVariants(const UlyssesResources& resources, const std::vector<std::string>& names)
    : resources_(resources) {
  const auto any = [&](bool among_ranks, bool (*has)(std::string_view)) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return is_among_ranks(name) == among_ranks && has(name); });
  };
  if (any(false, has_projection)) {
    projection_ = make_local_gemms(resources, local_projection_of);
  }
  if (any(false, has_attention)) {
    attention_ = make_local_attentions(resources);
  }
  if (any(false, has_output_projection) || any(true, has_output_projection)) {
    output_projection_ = make_local_gemms(resources, output_projection_of);
  }
  if (any(true, is_among_ranks)) {
    shared_ = make_shared_layer(resources);
  }
}

void UlyssesVariants::project_output(const void* attended, int rank, int set, cudaStream_t stream) const {
  gemm::Operands operands;
  operands.a = attended;
  operands.b = resources_.operands.output_weights(rank, set);
  operands.output = resources_.operands.result(rank).as<void>();
  output_projection_.of_rank[static_cast<std::size_t>(rank)]->launch(operands, stream);
}

void UlyssesVariants::enqueue_compute(const std::string& name, int rank, int set, cudaStream_t stream) const {
  const UlyssesOperands& operands = resources_.operands;
  const auto index = static_cast<std::size_t>(rank);
  if (has_projection(name)) {
    gemm::Operands addresses;
    addresses.a = operands.states(rank, set);
    addresses.b = operands.projection_weights(rank, set);
    addresses.output = operands.projected(rank);
    projection_.of_rank[index]->launch(addresses, stream);
  }
  if (has_attention(name)) {
    attention::Operands addresses;
    addresses.query = operands.projected_part(rank, 0);
    addresses.key = operands.projected_part(rank, 1);
    addresses.value = operands.projected_part(rank, 2);
    addresses.output = operands.attended(rank);
    attention_.of_rank[index]->launch(addresses, stream);
  }
  if (has_output_projection(name)) {
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

void UlyssesVariants::enqueue(const std::string& name, int rank, int call, cudaStream_t stream) const {
  const int set = resources_.operands.set_of(call);
  if (is_among_ranks(name)) {
    enqueue_among_ranks(name == "flags", rank, set, stream);
  } else {
    enqueue_compute(name, rank, set, stream);
  }
}

void UlyssesVariants::check(const std::string& name) const {
  if (is_among_ranks(name)) {
    check_all(shared_.projection);
    check_all(shared_.attention);
  } else {
    check_all(projection_.of_rank);
    check_all(attention_.of_rank);
  }
  check_all(output_projection_.of_rank);
}

Variant UlyssesVariants::variant(const std::string& name) {
  return {name, [this, name](int rank, int call, cudaStream_t stream) { enqueue(name, rank, call, stream); },
          [this, name] { check(name); }};
}

void UlyssesVariants::run_once(const std::string& name, int call) const {
  for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
    const cuda::CurrentDevice current(resources_.ranks.device(rank));
    enqueue(name, rank, call, resources_.ranks.stream(rank));
  }
  resources_.ranks.synchronise();
  check(name);
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
    return static_cast<std::size_t>(rows * heads * ulysses_head_dim * element_bytes);
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
