// MoeLayer, one rank's handle. It launches four kernels after each other on one stream: dispatch, Linear-1, Linear-2,
// combine.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "device/device_memory.hpp"
#include "fabric/common_launch.hpp"
#include "fabric/handle.hpp"
#include "ops/moe/device/launches.hpp"
#include "ops/moe/device/layer_exchange.hpp"
#include "ops/moe/device/layer_linears.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"
#include "xstage/moe.hpp"

namespace xstage {

using kernels::CombineLaunch;
using kernels::DispatchLaunch;
using moe::Operands;

class MoeLayer::State {
 public:
  State(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan, std::chrono::microseconds time_out)
      : problem_(checked(problem, heap, time_out)),
        plan_(agreed_plan(problem, plan, heap)),
        exchange_(heap, problem, plan_, time_out),
        linears_(make_linears()) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  /// Parameters for these operands. `blocks` is the number of CTAs of dispatch and combine; virtual ranks share the
  /// multiprocessors.
  void prepare(const Operands& operands, int blocks) {
    check_operands(operands);
    exchange_.prepare(operands, blocks);
    // The estimate is the number of choices of the rank's tokens, as if experts were equally popular. A rank without
    // tokens has no estimate of its own.
    const std::int64_t tokens = operands.tokens > 0 ? operands.tokens : problem_.most_tokens;
    linears_.prepare(operands.linear1, operands.linear2, tokens * problem_.top_k);
  }

  void enqueue(cudaStream_t stream) const {
    kernels::launch_dispatch(exchange_.dispatch(), plan_.issuers, stream);
    enqueue_linears(stream);
    kernels::launch_combine(exchange_.combine(), plan_.issuers, stream);
  }

  void enqueue_linears(cudaStream_t stream) const {
    kernels::launch_grouped(linears_.linear1(), stream);
    kernels::launch_grouped(linears_.linear2(), stream);
  }

  const DispatchLaunch* upload(const std::vector<DispatchLaunch>& launches, cudaStream_t stream) {
    return virtual_dispatch_.upload(exchange_.memory(), launches, stream);
  }
  const CombineLaunch* upload(const std::vector<CombineLaunch>& launches, cudaStream_t stream) {
    return virtual_combine_.upload(exchange_.memory(), launches, stream);
  }

  [[nodiscard]] const kernels::LayerExchange& exchange() const { return exchange_; }
  [[nodiscard]] HeapRank& heap() const { return exchange_.heap(); }
  [[nodiscard]] const moe::Plan& plan() const { return plan_; }
  [[nodiscard]] const moe::Problem& problem() const { return problem_; }
  void launched(int blocks, cudaStream_t stream) { exchange_.launched(blocks, stream); }
  void check() const { exchange_.check(); }
  void synchronise() const { exchange_.synchronise(); }
  void restore() { exchange_.restore(); }

 private:
  static const moe::Problem& checked(const moe::Problem& problem, const HeapRank& heap,
                                     std::chrono::microseconds time_out) {
    kernels::check_time_out(time_out);
    moe::check_problem(problem, heap.world());
    kernels::require_hopper(heap.device());
    return problem;
  }

  /// Called before anything is allocated, so that a rank that differs has not changed.
  static moe::Plan agreed_plan(const moe::Problem& problem, const moe::Plan& plan, HeapRank& heap) {
    const moe::Plan complete = moe::complete_plan(problem, plan, heap.world(), kernels::multiprocessors(heap.device()));
    heap.agree(moe::statement(problem, complete));
    return complete;
  }

  [[nodiscard]] kernels::LayerLinears make_linears() const {
    const cuda::CurrentDevice current(heap().device());
    return {problem_, exchange_.rows(), exchange_.most_rows(), plan_};
  }

  void check_operands(const Operands& operands) const {
    moe::check_tokens(problem_, operands.tokens);
    kernels::check_operand("linear1", operands.linear1);
    kernels::check_operand("linear2", operands.linear2);
    if (operands.tokens > 0) {
      kernels::check_operand("tokens_in", operands.tokens_in);
      kernels::check_operand("experts", operands.experts);
      kernels::check_operand("router_weights", operands.router_weights);
      kernels::check_operand("output", operands.output);
    }
  }

  moe::Problem problem_;
  moe::Plan plan_;
  kernels::LayerExchange exchange_;
  kernels::LayerLinears linears_;
  kernels::VirtualParameters virtual_dispatch_;
  kernels::VirtualParameters virtual_combine_;
};

MoeLayer::MoeLayer(HeapRank& heap, const moe::Problem& problem, const moe::Plan& plan,
                   std::chrono::microseconds time_out)
    : state_(std::make_unique<State>(heap, problem, plan, time_out)) {}
MoeLayer::MoeLayer(MoeLayer&&) noexcept = default;
MoeLayer& MoeLayer::operator=(MoeLayer&&) noexcept = default;
MoeLayer::~MoeLayer() = default;

void MoeLayer::launch(const Operands& operands, CUstream_st* stream) {
  const cuda::CurrentDevice current(state_->heap().device());
  state_->prepare(operands, issuers());
  state_->enqueue(stream);
  state_->launched(issuers(), stream);
}

void MoeLayer::launch_together(std::span<MoeLayer* const> ranks, std::span<const Operands> operands,
                               CUstream_st* stream) {
  kernels::check_common_launch(ranks, operands.size(),
                               [](const MoeLayer& rank) -> const HeapRank& { return rank.state_->heap(); });
  State& first = *ranks[0]->state_;
  const int world = first.heap().world();
  const cuda::CurrentDevice current(first.heap().device());
  // All virtual ranks share the multiprocessors.
  const int blocks = std::min(kernels::multiprocessors(first.heap().device()) / world, first.plan().issuers);
  moe::check_issuers(first.problem(), blocks);
  std::vector<DispatchLaunch> dispatches;
  std::vector<CombineLaunch> combines;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    State& state = *ranks[rank]->state_;
    state.prepare(operands[rank], blocks);
    dispatches.push_back(state.exchange().dispatch());
    combines.push_back(state.exchange().combine());
  }
  const DispatchLaunch* const dispatches_there = first.upload(dispatches, stream);
  const CombineLaunch* const combines_there = first.upload(combines, stream);
  kernels::launch_virtual_dispatch(dispatches_there, dispatches[0], world, blocks, stream);
  for (MoeLayer* const rank : ranks) {
    // No peer takes part, so the ranks run one after the other, on all multiprocessors.
    rank->state_->enqueue_linears(stream);
  }
  kernels::launch_virtual_combine(combines_there, combines[0], world, blocks, stream);
  for (MoeLayer* const rank : ranks) {
    rank->state_->launched(blocks, stream);
  }
}

void MoeLayer::check() const { state_->check(); }

void MoeLayer::reset(std::span<MoeLayer* const> ranks) {
  for (MoeLayer* const rank : ranks) {
    rank->state_->synchronise();
  }
  for (MoeLayer* const rank : ranks) {
    rank->state_->restore();
  }
}

const moe::Plan& MoeLayer::plan() const { return state_->plan(); }
const moe::Problem& MoeLayer::problem() const { return state_->problem(); }
int MoeLayer::issuers() const { return state_->plan().issuers; }

}  // namespace xstage
