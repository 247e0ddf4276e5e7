#include "bench/cuda/attention_variants.hpp"

#include <algorithm>
#include <chrono>

#include "bench/attention_reference.hpp"
#include "bench/attention_spans.hpp"

namespace xstage::bench {

namespace {

/// All ranks of a benchmark start together, and few calls take a tenth of that: what waits longer waits in vain.
constexpr std::chrono::seconds time_out{5};

constexpr std::int64_t element_bytes = 2;

int multiprocessors(int device) {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for multiprocessors");
  return count;
}

bool computes(const std::string& name) { return name != "all_to_all"; }
bool exchanges(const std::string& name) { return name == "all_to_all" || name == "serial"; }

/// No rank knows of another: each has a heap of its own.
OperationHandles<Attention> make_local(const AttentionResources& resources) {
  const attention::Problem problem = problem_of_rank(resources.cell);
  OperationHandles<Attention> handles;
  for (const int device : resources.ranks.devices()) {
    handles.heaps.push_back(PeerAccessHeap::create({device}, attention::heap_bytes(problem, 1)));
    const attention::Plan plan = choose_plan(problem, 1, multiprocessors(device), resources.plan);
    handles.of_rank.push_back(std::make_unique<Attention>(handles.heaps.back().rank(0), problem, plan, time_out));
  }
  return handles;
}

/// One handle a rank in a heap that they share; `bytes` of it each.
template <typename Operation, typename Problem, typename Plan>
OperationHandles<Operation> make_shared_handles(const AttentionResources& resources, const Problem& problem,
                                                const Plan& plan, std::size_t bytes) {
  OperationHandles<Operation> handles;
  handles.heaps.push_back(PeerAccessHeap::create(resources.ranks.devices(), bytes));
  for (int rank = 0; rank < resources.ranks.count(); ++rank) {
    handles.of_rank.push_back(std::make_unique<Operation>(handles.heaps.back().rank(rank), problem, plan, time_out));
  }
  return handles;
}

OperationHandles<Attention> make_among_ranks(const AttentionResources& resources, attention::Destination destination) {
  attention::Problem problem = resources.cell.problem;
  problem.destination = destination;
  const int world = resources.ranks.count();
  return make_shared_handles<Attention>(
      resources, problem, choose_plan(problem, world, multiprocessors(resources.ranks.device(0)), resources.plan),
      attention::heap_bytes(problem, world) + recorder_bytes);
}

OperationHandles<AllToAll> make_exchange(const AttentionResources& resources) {
  const all_to_all::Problem problem = exchange_of(resources.cell);
  const int world = resources.ranks.count();
  return make_shared_handles<AllToAll>(
      resources, problem, all_to_all::make_plan(problem, world, multiprocessors(resources.ranks.device(0))),
      all_to_all::heap_bytes(problem, world));
}

template <typename Operation>
void check(const OperationHandles<Operation>& handles) {
  for (const std::unique_ptr<Operation>& handle : handles.of_rank) {
    handle->check();
  }
}

}  // namespace

AttentionVariants::AttentionVariants(const AttentionResources& resources, const std::vector<std::string>& names)
    : resources_(resources) {
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("attention") || has("serial")) {
    local_ = make_local(resources);
  }
  if (has("fused") || has("fused_arrived")) {
    to_owners_ = make_among_ranks(resources, attention::Destination::to_owners);
  }
  if (has("local_twin")) {
    twin_ = make_among_ranks(resources, attention::Destination::twin);
  }
  if (has("all_to_all") || has("serial")) {
    exchange_ = make_exchange(resources);
  }
}

template <typename Variants>
auto& AttentionVariants::attention_of(Variants& variants, const std::string& name) {
  if (is_fused(name)) {
    return variants.to_owners_;
  }
  return name == "local_twin" ? variants.twin_ : variants.local_;
}

void AttentionVariants::launch_attention(const std::string& name, int rank, int call, cudaStream_t stream) const {
  const AttentionOperands& operands = resources_.operands;
  const Completion completion = name == "fused" ? Completion::sent : Completion::arrived;
  attention_of(*this, name)
      .of_rank[static_cast<std::size_t>(rank)]
      ->launch(operands.addresses(rank, operands.set_of(call)), stream, completion);
}

void AttentionVariants::launch_exchange(int rank, cudaStream_t stream) const {
  exchange_.of_rank[static_cast<std::size_t>(rank)]->launch({resources_.operands.output(rank)}, stream);
}

Variant AttentionVariants::variant(const std::string& name) {
  return {name,
          [this, name](int rank, int call, cudaStream_t stream) {
            if (computes(name)) {
              launch_attention(name, rank, call, stream);
            }
            if (exchanges(name)) {
              launch_exchange(rank, stream);
            }
          },
          [this, name] {
            if (computes(name)) {
              check(attention_of(*this, name));
            }
            if (exchanges(name)) {
              check(exchange_);
            }
          }};
}

Recordable AttentionVariants::recordable(const std::string& name) {
  OperationHandles<Attention>& handles = attention_of(*this, name);
  const Attention& first = *handles.of_rank.front();
  PeerAccessHeap& heap = handles.heaps.front();
  Recordable recordable;
  recordable.issuers = first.issuers();
  recordable.spans_of_a_role = spans_of_a_role(first.problem(), first.plan(), heap.world());
  recordable.instrument = [&handles](int rank, const Instruments& instruments) {
    handles.of_rank[static_cast<std::size_t>(rank)]->instrument(instruments);
  };
  recordable.variant = variant(name);
  for (int rank = 0; rank < heap.world(); ++rank) {
    recordable.heap_ranks.push_back(&heap.rank(rank));
  }
  return recordable;
}

std::optional<attention::Plan> AttentionVariants::plan_of(const std::string& name) const {
  return computes(name) ? std::optional(attention_of(*this, name).of_rank.front()->plan()) : std::nullopt;
}

std::optional<all_to_all::Plan> AttentionVariants::exchange_plan_of(const std::string& name) const {
  return exchanges(name) ? std::optional(exchange_.of_rank.front()->plan()) : std::nullopt;
}

std::string AttentionVariants::l2_policy(const std::string& name) const {
  return name == "all_to_all" ? "the same input in every call: L2 holds of it what it can, as behind an attention"
                              : resources_.operands.l2_policy();
}

void* AttentionVariants::result(const std::string& name, int rank) const {
  if (!at_owners(name)) {
    return resources_.operands.output(rank);
  }
  const auto index = static_cast<std::size_t>(rank);
  return is_fused(name) ? to_owners_.of_rank[index]->output() : exchange_.of_rank[index]->output();
}

void AttentionVariants::poison_results(const std::string& name) const {
  const attention::Problem& problem = resources_.cell.problem;
  for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
    const int device = resources_.ranks.device(rank);
    poison(device, resources_.operands.output(rank), resources_.operands.output_bytes());
    const std::int64_t elements = own_rows(resources_.cell, rank) * problem.heads * problem.head_dim;
    if (at_owners(name) && elements > 0) {
      poison(device, result(name, rank), static_cast<std::size_t>(elements * element_bytes));
    }
  }
}

}  // namespace xstage::bench
