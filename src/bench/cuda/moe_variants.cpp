#include "bench/cuda/moe_variants.hpp"

#include <algorithm>
#include <chrono>

namespace xstage::bench {

namespace {

/// All ranks of a benchmark start together, and few calls take a tenth of that: what waits longer waits in vain.
constexpr std::chrono::seconds time_out{5};

}  // namespace

MoeVariants::MoeVariants(const MoeResources& resources, const std::vector<std::string>& names) : resources_(resources) {
  for (const std::string& name : names) {
    if (is_layer(name)) {
      make_layer(name);
    }
  }
  make_parts(names);
}

void MoeVariants::make_parts(const std::vector<std::string>& names) {
  const bool twins = std::any_of(names.begin(), names.end(), is_local_twin);
  for (const std::string& name : names) {
    std::unique_ptr<MoeParts>& wanted = combine_of(name) == moe::Combine::rows ? parts_with_rows_ : parts_;
    if (!is_layer(name) && !wanted) {
      wanted = std::make_unique<MoeParts>(resources_.ranks, resources_.cell, resources_.operands, combine_of(name),
                                          twins && &wanted == &parts_);
    }
  }
}

const MoeParts& MoeVariants::parts(const std::string& name) const {
  return combine_of(name) == moe::Combine::rows ? *parts_with_rows_ : *parts_;
}

void MoeVariants::make_layer(const std::string& name) {
  const int world = resources_.ranks.count();
  const moe::Problem problem = problem_of(resources_.cell);
  const moe::Plan plan = plan_of(resources_.ranks, resources_.cell, combine_of(name));
  auto made = std::make_unique<Layer>();
  made->name = name;
  made->heap = PeerAccessHeap::create(resources_.ranks.devices(), moe::heap_bytes(problem, world));
  for (int rank = 0; rank < world; ++rank) {
    made->of_rank.push_back(std::make_unique<MoeLayer>(made->heap->rank(rank), problem, plan, time_out));
  }
  layers_.push_back(std::move(made));
}

const MoeVariants::Layer& MoeVariants::layer(const std::string& name) const {
  return **std::find_if(layers_.begin(), layers_.end(), [&](const auto& made) { return made->name == name; });
}

void MoeVariants::enqueue(const std::string& name, int rank, int call, cudaStream_t stream) const {
  const int set = MoeOperands::set_of(call);
  if (is_layer(name)) {
    layer(name).of_rank[static_cast<std::size_t>(rank)]->launch(resources_.operands.of_launch(rank, set), stream);
  } else {
    parts(name).enqueue(name, rank, set, stream);
  }
}

void MoeVariants::check(const std::string& name) const {
  if (is_layer(name)) {
    const auto& ranks = layer(name).of_rank;
    std::for_each(ranks.begin(), ranks.end(), [](const auto& handle) { handle->check(); });
  } else {
    parts(name).check();
  }
}

Variant MoeVariants::variant(const std::string& name) {
  return {name, [this, name](int rank, int call, cudaStream_t stream) { enqueue(name, rank, call, stream); },
          [this, name] { check(name); }};
}

void MoeVariants::poison_output() const {
  for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
    const cuda::DeviceBuffer& output = resources_.operands.output(rank);
    poison(resources_.ranks.device(rank), output.as<void>(), output.bytes());
  }
}

}  // namespace xstage::bench
