#include "kernels/moe/layer_exchange.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "kernels/moe/combine.hpp"
#include "kernels/moe/dispatch.hpp"
#include "kernels/moe/dispatch_report.hpp"
#include "moe/heap.hpp"
#include "moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

constexpr std::int64_t element_bytes = 2;

/// In pinned memory, which the host reads without any synchronisation.
RoutingReport* make_report() {
  void* memory = nullptr;
  cuda::check(cudaHostAlloc(&memory, sizeof(RoutingReport), cudaHostAllocPortable | cudaHostAllocMapped),
              "allocating the routing report");
  auto* report = static_cast<RoutingReport*>(memory);
  *report = {};
  return report;
}

template <typename Element>
cuda::DeviceBuffer elements(int device, std::int64_t count, const char* purpose) {
  return {device, static_cast<std::size_t>(count) * sizeof(Element), purpose};
}

}  // namespace

void LayerExchange::FreeReport::operator()(RoutingReport* report) const { static_cast<void>(cudaFreeHost(report)); }

LayerExchange::LayerExchange(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan,
                             std::chrono::microseconds time_out)
    : problem_(problem),
      most_rows_(moe::most_rows(problem, heap.world())),
      call_(heap, "moe", moe::arrival_words(heap.world()), time_out) {
  const moe::HeapSections sections = moe::heap_sections(problem, heap.world());
  tokens_ = call_.take("tokens", sections.tokens);
  counts_ = call_.take("counts", sections.counts);
  routes_ = call_.take("routes", sections.routes);
  slots_ = call_.take("slots", sections.slots);
  call_.finish_setup();
  const cuda::CurrentDevice current(heap.device());
  take_own_buffers(plan.issuers);
  clear_totals();
  report_.reset(make_report());
  fill_launches(plan.combine);
  load_dispatch();
  load_combine();
}

void LayerExchange::take_own_buffers(int most_blocks) {
  const int device = heap().device();
  const std::int64_t experts = problem_.experts_per_rank;
  activations_ = elements<std::uint16_t>(device, most_rows_ * problem_.intermediate, "results of Linear-1");
  results_ = elements<std::uint16_t>(device, most_rows_ * problem_.hidden, "results of Linear-2");
  weights_ = elements<float>(device, most_rows_, "router weights of rows");
  origins_ = elements<MoeOrigin>(device, most_rows_, "origins of rows");
  expert_counts_ = elements<std::int32_t>(device, experts, "rows of experts");
  first_block_ = elements<std::int32_t>(device, experts + 1, "first blocks of experts");
  const std::int64_t counts = padded_counts(problem_.experts_per_rank * heap().world());
  block_counts_ = elements<std::uint32_t>(device, most_blocks * counts, "choices that CTAs have counted");
  totals_ = elements<std::uint32_t>(device, 2 * counts, "choices of experts");
  tokens_of_ = elements<std::int32_t>(device, max_world, "tokens of ranks");
}

void LayerExchange::fill_exchange(MoeExchange& exchange) const {
  exchange.call = call_.parameters();
  exchange.most_tokens = static_cast<std::int32_t>(problem_.most_tokens);
  exchange.top_k = problem_.top_k;
  exchange.experts_per_rank = problem_.experts_per_rank;
  exchange.row_bytes = static_cast<std::int32_t>(problem_.hidden * element_bytes);
  const PeerView routes = heap().view(routes_);
  for (int rank = 0; rank < heap().world(); ++rank) {
    exchange.routes[rank] = reinterpret_cast<MoeRoute*>(routes.base[rank]);
  }
  exchange.tokens_of = tokens_of_.as<std::int32_t>();
  exchange.rows = {static_cast<char*>(heap().local(tokens_)),
                   activations_.as<char>(),
                   results_.as<char>(),
                   expert_counts_.as<std::int32_t>(),
                   first_block_.as<std::int32_t>(),
                   weights_.as<float>(),
                   origins_.as<MoeOrigin>()};
}

void LayerExchange::fill_launches(moe::Combine combine) {
  fill_exchange(dispatch_.exchange);
  fill_exchange(combine_.exchange);
  const PeerView tokens = heap().view(tokens_);
  const PeerView counts = heap().view(counts_);
  const PeerView slots = heap().view(slots_);
  for (int rank = 0; rank < heap().world(); ++rank) {
    dispatch_.peer_tokens[rank] = tokens.base[rank];
    dispatch_.counts[rank] = reinterpret_cast<std::uint64_t*>(counts.base[rank]);
    combine_.slots[rank] = slots.base[rank];
  }
  dispatch_.block_counts = block_counts_.as<std::uint32_t>();
  dispatch_.totals = totals_.as<std::uint32_t>();
  dispatch_.report = report_.get();
  combine_.partial_sums = combine == moe::Combine::partial_sums ? 1 : 0;
  combine_.enters = 0;  // the dispatch of the same call has seen all peers enter
  combine_.overlaps = 1;
  plan_dispatch(dispatch_);
  plan_combine(combine_);
}

void LayerExchange::prepare(const moe::Operands& operands, int blocks) {
  check();
  call_.prepare(blocks);
  dispatch_.exchange.tokens = static_cast<std::int32_t>(operands.tokens);
  combine_.exchange.tokens = dispatch_.exchange.tokens;
  dispatch_.tokens_in = static_cast<const char*>(operands.tokens_in);
  dispatch_.experts = operands.experts;
  dispatch_.router_weights = operands.router_weights;
  combine_.output = static_cast<char*>(operands.output);
}

void LayerExchange::check() const {
  call_.check();
  if (static_cast<const volatile RoutingReport*>(report_.get())->raised == 2U) {
    throw InputError(
        fmt::format("moe: {}. Results of that launch mean nothing; call reset() on all ranks before the "
                    "next one",
                    describe(*report_, moe::all_experts(problem_, heap().world()))));
  }
}

void LayerExchange::clear_totals() {
  cuda::check(cudaMemset(totals_.as<void>(), 0, totals_.bytes()), "clearing totals");
  cuda::check(cudaDeviceSynchronize(), "clearing totals");
}

void LayerExchange::restore() {
  call_.restore();
  const cuda::CurrentDevice current(heap().device());
  // They carry the numbers of calls, which come again.
  cuda::check(cudaMemset(heap().local(counts_), 0, counts_.bytes), "clearing counts");
  clear_totals();
  *report_ = {};
}

}  // namespace xstage::kernels
