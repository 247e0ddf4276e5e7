#include "ops/moe/bench/cuda/variants.hpp"

#include <algorithm>
#include <chrono>

#include "bench/cuda/operand_memory.hpp"
#include "bench/plan_options.hpp"

namespace xstage::bench {

MoeVariants::MoeVariants(const MoeResources& resources, const std::vector<MoeVariant>& entries)
    : resources_(resources) {
  const bool twins =
      std::any_of(entries.begin(), entries.end(), [](const MoeVariant& entry) { return entry.local_twin; });
  for (const MoeVariant& entry : entries) {
    OfCombine& made = of_combine_[entry.combine];
    if (entry.part == MoePart::layer) {
      made.layer = make_layer(entry);
    } else if (!made.parts) {
      made.parts = std::make_unique<MoeParts>(resources_.ranks, resources_.cell, resources_.operands, entry,
                                              twins && entry.combine == moe::Combine::partial_sums);
    }
  }
}

std::unique_ptr<MoeVariants::Layer> MoeVariants::make_layer(const MoeVariant& entry) const {
  const int world = resources_.ranks.count();
  const moe::Problem problem = problem_of(resources_.cell);
  const moe::Plan plan = plan_of(resources_.cell, entry, multiprocessors_of(resources_.ranks.device(0)));
  auto made = std::make_unique<Layer>();
  made->heap = PeerAccessHeap::create(resources_.ranks.devices(), moe::heap_bytes(problem, world));
  for (int rank = 0; rank < world; ++rank) {
    made->of_rank.push_back(std::make_unique<MoeLayer>(made->heap->rank(rank), problem, plan, time_out));
  }
  return made;
}

void MoeVariants::enqueue(const MoeVariant& entry, int rank, int call, cudaStream_t stream) const {
  const int set = MoeOperands::set_of(call);
  const OfCombine& made = of_combine_.at(entry.combine);
  if (entry.part == MoePart::layer) {
    made.layer->of_rank[static_cast<std::size_t>(rank)]->launch(resources_.operands.of_launch(rank, set), stream);
  } else {
    made.parts->enqueue(entry, rank, set, stream);
  }
}

void MoeVariants::check(const MoeVariant& entry) const {
  const OfCombine& made = of_combine_.at(entry.combine);
  if (entry.part == MoePart::layer) {
    const auto& ranks = made.layer->of_rank;
    std::for_each(ranks.begin(), ranks.end(), [](const auto& handle) { handle->check(); });
  } else {
    made.parts->check();
  }
}

Variant MoeVariants::variant(const MoeVariant& entry) {
  const OfCombine& made = of_combine_.at(entry.combine);
  Variant variant;
  variant.name = entry.name;
  variant.enqueue = [this, entry](int rank, int call, cudaStream_t stream) { enqueue(entry, rank, call, stream); };
  variant.check = [this, entry] { check(entry); };
  variant.l2 = resources_.operands.l2_policy();
  variant.plans["plan"] =
      plan_json(entry.part == MoePart::layer ? made.layer->of_rank.front()->plan() : made.parts->plan());
  return variant;
}

void MoeVariants::poison_output() const {
  for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
    const cuda::DeviceBuffer& output = resources_.operands.output(rank);
    poison(resources_.ranks.device(rank), output.as<void>(), output.bytes());
  }
}

}  // namespace xstage::bench
