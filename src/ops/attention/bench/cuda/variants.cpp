#include "ops/attention/bench/cuda/variants.hpp"

#include <algorithm>
#include <chrono>

#include "ops/attention/bench/reference.hpp"
#include "ops/attention/bench/spans.hpp"

namespace xstage::bench {

namespace {

/// Handles of ranks that do not communicate: each has a heap of its own.
OperationHandles<Attention> make_local(const AttentionResources& resources) {
  const attention::Problem problem = problem_of_rank(resources.cell);
  OperationHandles<Attention> handles;
  for (const int device : resources.ranks.devices()) {
    handles.heaps.push_back(PeerAccessHeap::create({device}, attention::heap_bytes(problem, 1)));
    const attention::Plan plan = choose_plan(problem, 1, multiprocessors_of(device), resources.plan);
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

OperationHandles<Attention> make_among_ranks(const AttentionResources& resources, const AttentionVariant& entry) {
  const attention::Problem problem = problem_of(resources.cell, entry);
  const int world = resources.ranks.count();
  return make_shared_handles<Attention>(
      resources, problem, choose_plan(problem, world, multiprocessors_of(resources.ranks.device(0)), resources.plan),
      attention::heap_bytes(problem, world) + recorder_bytes);
}

OperationHandles<AllToAll> make_exchange(const AttentionResources& resources) {
  const all_to_all::Problem problem = exchange_of(resources.cell);
  const int world = resources.ranks.count();
  return make_shared_handles<AllToAll>(
      resources, problem, all_to_all::make_plan(problem, world, multiprocessors_of(resources.ranks.device(0))),
      all_to_all::heap_bytes(problem, world));
}

template <typename Operation>
void check_all(const OperationHandles<Operation>& handles) {
  for (const std::unique_ptr<Operation>& handle : handles.of_rank) {
    handle->check();
  }
}

}  // namespace

template <typename Variants>
auto& AttentionVariants::attention_of(Variants& variants, const AttentionVariant& entry) {
  switch (entry.destination) {
    case attention::Destination::to_owners:
      return variants.to_owners_;
    case attention::Destination::twin:
      return variants.twin_;
    case attention::Destination::local:
      break;
  }
  return variants.local_;
}

AttentionVariants::AttentionVariants(const AttentionResources& resources, const std::vector<AttentionVariant>& entries)
    : resources_(resources) {
  for (const AttentionVariant& entry : entries) {
    if (entry.computes && attention_of(*this, entry).of_rank.empty()) {
      attention_of(*this, entry) = entry.destination == attention::Destination::local
                                       ? make_local(resources)
                                       : make_among_ranks(resources, entry);
    }
    if (entry.exchanges && exchange_.of_rank.empty()) {
      exchange_ = make_exchange(resources);
    }
  }
}

void AttentionVariants::launch(const AttentionVariant& entry, int rank, int call, cudaStream_t stream) const {
  const AttentionOperands& operands = resources_.operands;
  const auto index = static_cast<std::size_t>(rank);
  if (entry.computes) {
    attention_of(*this, entry)
        .of_rank[index]
        ->launch(operands.addresses(rank, operands.set_of(call)), stream, entry.completion);
  }
  if (entry.exchanges) {
    exchange_.of_rank[index]->launch({operands.output(rank)}, stream);
  }
}

void AttentionVariants::check(const AttentionVariant& entry) const {
  if (entry.computes) {
    check_all(attention_of(*this, entry));
  }
  if (entry.exchanges) {
    check_all(exchange_);
  }
}

Variant AttentionVariants::variant(const AttentionVariant& entry) {
  Variant variant;
  variant.name = entry.name;
  variant.enqueue = [this, entry](int rank, int call, cudaStream_t stream) { launch(entry, rank, call, stream); };
  variant.check = [this, entry] { check(entry); };
  if (entry.computes) {
    variant.l2 = resources_.operands.l2_policy();
    variant.plans["plan"] = plan_json(plan_of(entry));
  }
  if (entry.exchanges) {
    const Json plan = plan_json(exchange_.of_rank.front()->plan());
    if (!entry.computes) {
      variant.l2 = "the same input in every call: L2 holds of it what it can, as behind an attention";
      variant.plans["plan"] = plan;
    }
    variant.plans["all_to_all_plan"] = plan;
  }
  return variant;
}

Recordable AttentionVariants::recordable(const AttentionVariant& entry) {
  OperationHandles<Attention>& handles = attention_of(*this, entry);
  const Attention& first = *handles.of_rank.front();
  PeerAccessHeap& heap = handles.heaps.front();
  Recordable recordable;
  recordable.issuers = first.issuers();
  recordable.spans_of_a_role = spans_of_a_role(first.problem(), first.plan(), heap.world());
  recordable.instrument = [&handles](int rank, const Instruments& instruments) {
    handles.of_rank[static_cast<std::size_t>(rank)]->instrument(instruments);
  };
  recordable.variant = variant(entry);
  for (int rank = 0; rank < heap.world(); ++rank) {
    recordable.heap_ranks.push_back(&heap.rank(rank));
  }
  return recordable;
}

const attention::Plan& AttentionVariants::plan_of(const AttentionVariant& entry) const {
  return attention_of(*this, entry).of_rank.front()->plan();
}

void* AttentionVariants::result(const AttentionVariant& entry, int rank) const {
  if (!at_owners(entry)) {
    return resources_.operands.output(rank);
  }
  const auto index = static_cast<std::size_t>(rank);
  return entry.exchanges ? exchange_.of_rank[index]->output() : to_owners_.of_rank[index]->output();
}

void AttentionVariants::poison_results(const AttentionVariant& entry) const {
  const attention::Problem& problem = resources_.cell.problem;
  for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
    const int device = resources_.ranks.device(rank);
    poison(device, resources_.operands.output(rank), resources_.operands.output_bytes());
    const std::int64_t elements = own_rows(resources_.cell, rank) * problem.heads * problem.head_dim;
    if (at_owners(entry) && elements > 0) {
      poison(device, result(entry, rank), static_cast<std::size_t>(elements) * element_bytes);
    }
  }
}

}  // namespace xstage::bench
