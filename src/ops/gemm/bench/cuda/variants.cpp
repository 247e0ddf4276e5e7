#include "ops/gemm/bench/cuda/variants.hpp"

#include <algorithm>
#include <chrono>

#include "bench/cuda/operand_memory.hpp"
#include "ops/gemm/bench/cuda/local_twin.hpp"
#include "ops/gemm/bench/spans.hpp"

namespace xstage::bench {

namespace {

/// Plan of the operation with communication.
Plan shared_plan(const GemmResources& resources) {
  return choose_plan(resources.cell.problem, resources.ranks.count(), multiprocessors_of(resources.ranks.device(0)),
                     resources.plan);
}

}  // namespace

GemmHandles::GemmHandles(const GemmResources& resources, GemmWay way) {
  switch (way) {
    case GemmWay::alone:
      make_alone(resources);
      break;
    case GemmWay::fused:
      make_fused(resources);
      break;
    case GemmWay::local_twin:
      make_local_twin(resources);
      break;
    case GemmWay::cublas:
      break;
  }
}

void GemmHandles::make_alone(const GemmResources& resources) {
  const gemm::Problem problem = problem_of_rank(resources.cell);
  for (int rank = 0; rank < resources.ranks.count(); ++rank) {
    const int device = resources.ranks.device(rank);
    const Plan plan = gemm::make_plan(problem, 1, multiprocessors_of(device));
    heaps_.push_back(PeerAccessHeap::create({device}, gemm::heap_bytes(problem, plan, 1)));
    handles_.push_back(std::make_unique<Gemm>(heaps_.back().rank(0), problem, plan, time_out));
    launched_.push_back(handles_.back().get());
  }
}

void GemmHandles::make_fused(const GemmResources& resources) {
  const gemm::Problem& problem = resources.cell.problem;
  const int world = resources.ranks.count();
  const Plan plan = shared_plan(resources);
  heaps_.push_back(
      PeerAccessHeap::create(resources.ranks.devices(), gemm::heap_bytes(problem, plan, world) + recorder_bytes));
  for (int rank = 0; rank < world; ++rank) {
    handles_.push_back(std::make_unique<Gemm>(heaps_.back().rank(rank), problem, plan, time_out));
    launched_.push_back(handles_.back().get());
  }
}

void GemmHandles::make_local_twin(const GemmResources& resources) {
  const gemm::Problem& problem = resources.cell.problem;
  const int world = resources.ranks.count();
  const Plan plan = shared_plan(resources);
  for (int rank = 0; rank < world; ++rank) {
    const int device = resources.ranks.device(rank);
    const std::vector<int> here(static_cast<std::size_t>(world), device);
    heaps_.push_back(PeerAccessHeap::create(here, gemm::heap_bytes(problem, plan, world)));
    // The constructor is collective, so all ranks construct the operation; one of them is launched.
    for (int member = 0; member < world; ++member) {
      handles_.push_back(std::make_unique<Gemm>(heaps_.back().rank(member), problem, plan, time_out));
    }
    Gemm* launched = handles_[handles_.size() - static_cast<std::size_t>(world - rank)].get();
    launched_.push_back(launched);
    stand_in_for_peers(heaps_.back().rank(rank), *launched);
  }
}

Variant GemmHandles::variant(const GemmVariant& entry, const GemmResources& resources) {
  const GemmOperands& operands = resources.operands;
  Variant variant;
  variant.name = entry.name;
  variant.enqueue = [this, &operands](int rank, int call, cudaStream_t stream) {
    gemm::Operands addresses;
    addresses.a = operands.a(rank, operands.set_of(call));
    addresses.b = operands.b(rank, operands.set_of(call));
    addresses.output = operands.output(rank);
    of_rank(rank).launch(addresses, stream);
  };
  variant.check = [this] {
    std::for_each(launched_.begin(), launched_.end(), [](const Gemm* gemm) { gemm->check(); });
  };
  variant.l2 = operands.l2_policy();
  variant.plans["plan"] = plan_json(of_rank(0).plan());
  return variant;
}

Recordable GemmHandles::recordable(const GemmResources& resources) {
  const Gemm& first = of_rank(0);
  Recordable recordable;
  recordable.issuers = first.issuers();
  recordable.spans_of_a_role = spans_of_a_role(first.problem(), first.plan(), heaps_.front().world());
  recordable.instrument = [this](int rank, const Instruments& instruments) { of_rank(rank).instrument(instruments); };
  recordable.variant = variant({{"instrumented"}}, resources);
  for (int rank = 0; rank < heaps_.front().world(); ++rank) {
    recordable.heap_ranks.push_back(&heaps_.front().rank(rank));
  }
  return recordable;
}

Variant cublas_variant(const std::vector<CublasHandle>& handles, const GemmResources& resources) {
  const GemmShape shape = shape_of_rank(resources.cell);
  const GemmOperands& operands = resources.operands;
  Variant variant;
  variant.name = "cublas";
  variant.enqueue = [&handles, &operands, shape](int rank, int call, cudaStream_t /*stream*/) {
    const int set = operands.set_of(call);
    handles[static_cast<std::size_t>(rank)].multiply(shape, operands.a(rank, set), operands.b(rank, set),
                                                     operands.output(rank));
  };
  variant.check = [] {};
  variant.l2 = operands.l2_policy();
  return variant;
}

}  // namespace xstage::bench
