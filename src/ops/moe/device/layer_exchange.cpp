#include "ops/moe/device/layer_exchange.hpp"

#include <fmt/format.h>

#include "device/device_memory.hpp"
#include "device/device_setup.hpp"
#include "ops/moe/device/launches.hpp"
#include "ops/moe/exchange_plan.hpp"
#include "ops/moe/heap.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

constexpr std::int64_t element_bytes = 2;

}  // namespace

std::string describe(const RoutingReport& report, int experts) {
  const std::string place = fmt::format("rank {}, token {}, choice {}", report.rank, report.token, report.choice);
  if (report.expert < MoeRoute::none || report.expert >= experts) {
    return fmt::format("{}: expert {}: it must be between 0 and {}, or -1 for none", place, report.expert, experts - 1);
  }
  return fmt::format("{}: router weight {}: it must be finite", place, report.weight);
}

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
  take_own_buffers(plan.issuers);
  clear_totals();
  report_ = static_cast<RoutingReport*>(call_.memory().take_pinned());
  fill_launches(plan);
  const cuda::CurrentDevice current(heap.device());
  load_dispatch();
  load_combine();
}

void LayerExchange::take_own_buffers(int most_blocks) {
  cuda::HandleMemory& memory = call_.memory();
  const auto count = [](std::int64_t elements) { return static_cast<std::size_t>(elements); };
  const std::int64_t experts = problem_.experts_per_rank;
  rows_ = {static_cast<char*>(heap().local(tokens_)),
           memory.take<char>(count(most_rows_ * problem_.intermediate * element_bytes), "results of Linear-1"),
           memory.take<char>(count(most_rows_ * problem_.hidden * element_bytes), "results of Linear-2"),
           memory.take<std::int32_t>(count(experts), "rows of experts"),
           memory.take<std::int32_t>(count(experts + 1), "first blocks of experts"),
           memory.take<float>(count(most_rows_), "router weights of rows"),
           memory.take<MoeOrigin>(count(most_rows_), "origins of rows")};
  const int all_experts = moe::all_experts(problem_, heap().world());
  dispatch_.block_counts = memory.take<std::uint32_t>(count(std::int64_t{most_blocks} * padded_counts(all_experts)),
                                                      "choices that CTAs have counted");
  total_words_ = count(2 * total_words(all_experts));
  dispatch_.totals = memory.take<std::uint32_t>(total_words_, "choices of experts");
  tokens_of_ = memory.take<std::int32_t>(max_world, "tokens of ranks");
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
  exchange.tokens_of = tokens_of_;
  exchange.rows = rows_;
}

void LayerExchange::fill_launches(const moe::Plan& plan) {
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
  dispatch_.report = report_;
  combine_.partial_sums = plan.combine == moe::Combine::partial_sums ? 1 : 0;
  combine_.enters = 0;  // the dispatch of the same call has seen all peers enter
  combine_.overlaps = 1;
  plan_dispatch(dispatch_, dispatch_tuning(plan));
  plan_combine(combine_, combine_tuning(plan));
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
  // Checked before waits: a rank may have waited in vain for a peer whose host stopped because of this report, and then
  // gets the reason here.
  if (static_cast<const volatile RoutingReport*>(report_)->raised != 0U) {
    throw InputError(
        fmt::format("moe: {}. Results of that launch mean nothing; call reset() on all ranks before the "
                    "next one",
                    describe(*report_, moe::all_experts(problem_, heap().world()))));
  }
  call_.check();
}

void LayerExchange::clear_totals() {
  cuda::DeviceSetup& setup = cuda::DeviceSetup::of(heap().device());
  setup.fill(dispatch_.totals, 0x00, total_words_ * sizeof(std::uint32_t));
  setup.wait();
}

void LayerExchange::restore() {
  call_.restore();
  // Counts carry the numbers of calls, which occur again after a reset.
  cuda::DeviceSetup::of(heap().device()).fill(heap().local(counts_), 0x00, counts_.bytes);
  clear_totals();
  *report_ = {};
}

}  // namespace xstage::kernels
