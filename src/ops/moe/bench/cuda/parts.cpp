#include "ops/moe/bench/cuda/parts.hpp"

#include <algorithm>
#include <chrono>

#include "bench/cuda/operand_memory.hpp"
#include "fabric/handle.hpp"
#include "ops/moe/device/grouped.hpp"
#include "ops/moe/device/launches.hpp"
#include "ops/moe/heap.hpp"
#include "ops/moe/problem.hpp"

namespace xstage::bench {

MoeParts::Part::Part(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan)
    : exchange(heap, problem, plan, time_out), linears(problem, exchange.rows(), exchange.most_rows(), plan) {}

MoeParts::MoeParts(const Ranks& ranks, const MoeCell& cell, const MoeOperands& operands, const MoeVariant& entry,
                   bool twins)
    : operands_(operands), plan_(plan_of(cell, entry, multiprocessors_of(ranks.device(0)))) {
  const moe::Problem problem = problem_of(cell);
  const moe::HeapSections sections = moe::heap_sections(problem, ranks.count());
  heap_ = PeerAccessHeap::create(ranks.devices(), moe::heap_bytes(problem, ranks.count()));
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const cuda::CurrentDevice current(ranks.device(rank));
    of_rank_.push_back(std::make_unique<Part>(heap_->rank(rank), problem, plan_));
    if (twins) {
      of_rank_.back()->local_tokens = {ranks.device(rank), sections.tokens, "rows that a local twin keeps"};
      of_rank_.back()->local_slots = {ranks.device(rank), sections.slots, "results that a local twin keeps"};
    }
    // As MoeLayer::launch does.
    of_rank_.back()->linears.prepare(operands.linear1(rank), operands.linear2(rank), cell.tokens * problem.top_k);
  }
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const cuda::CurrentDevice current(ranks.device(rank));
    for (const MoePart part : {MoePart::dispatch, MoePart::linear1, MoePart::linear2}) {
      enqueue({{}, part}, rank, 0, ranks.stream(rank));
    }
  }
  ranks.synchronise();
  check();
}

void MoeParts::enqueue(const MoeVariant& part, int rank, int set, cudaStream_t stream) const {
  Part& of_rank = *of_rank_[static_cast<std::size_t>(rank)];
  if (!is_exchange(part)) {
    kernels::launch_grouped(part.part == MoePart::linear1 ? of_rank.linears.linear1() : of_rank.linears.linear2(),
                            stream);
    return;
  }
  of_rank.exchange.prepare(operands_.of_launch(rank, set), plan_.issuers);
  if (part.part == MoePart::dispatch) {
    enqueue_dispatch(of_rank, rank, part.local_twin, stream);
  } else {
    enqueue_combine(of_rank, rank, part.local_twin, stream);
  }
  of_rank.exchange.launched(plan_.issuers, stream);
}

void MoeParts::enqueue_dispatch(const Part& part, int rank, bool local, cudaStream_t stream) const {
  kernels::DispatchLaunch dispatch = part.exchange.dispatch();
  for (int peer = 0; local && peer < dispatch.exchange.call.world; ++peer) {
    if (peer != rank) {
      dispatch.peer_tokens[peer] = part.local_tokens.as<char>();
    }
  }
  kernels::launch_dispatch(dispatch, plan_.issuers, stream);
}

void MoeParts::enqueue_combine(const Part& part, int rank, bool local, cudaStream_t stream) const {
  kernels::CombineLaunch combine = part.exchange.combine();
  for (int peer = 0; local && peer < combine.exchange.call.world; ++peer) {
    if (peer != rank) {
      combine.slots[peer] = part.local_slots.as<char>();
    }
  }
  combine.enters = 1;  // no dispatch of the same call has waited for the entry of peers
  kernels::launch_combine(combine, plan_.issuers, stream);
}

void MoeParts::check() const {
  std::for_each(of_rank_.begin(), of_rank_.end(), [](const auto& part) { part->exchange.check(); });
}

}  // namespace xstage::bench
