// AllToAll, one rank's handle: it owns the buffers in the symmetric heap, knows where peers' results lie, and launches.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "device/device_memory.hpp"
#include "fabric/common_launch.hpp"
#include "fabric/handle.hpp"
#include "ops/all_to_all/device/all_to_all.hpp"
#include "ops/all_to_all/device/chunk_map.hpp"
#include "ops/all_to_all/problem.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/error.hpp"
#include "xstage/row_range.hpp"

namespace xstage {

using all_to_all::Operands;
using kernels::AllToAllLaunch;

class AllToAll::State {
 public:
  State(HeapRank& heap, const all_to_all::Problem& problem, const all_to_all::Plan& plan,
        std::chrono::microseconds time_out)
      : problem_(checked(problem, heap, time_out)),
        plan_(agreed(problem, plan, heap)),
        call_(heap, "all_to_all", 0, time_out) {
    result_ = call_.take("output", all_to_all::result_bytes(problem_, 0, heap.world()));  // no rank has more rows
    call_.finish_setup();
    fill_constant_parameters();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  /// Parameters for these operands. Virtual ranks share the multiprocessors, so that each has fewer CTAs.
  const AllToAllLaunch& prepare(const Operands& operands, int blocks) {
    kernels::check_operand("input", operands.input);
    call_.prepare(blocks);
    if (launch_.schedule.tiling().blocks != blocks) {
      const all_to_all::Plan plan = all_to_all::with_issuers(plan_, blocks);
      launch_.schedule = all_to_all::make_schedule(problem_, plan, heap().rank(), heap().world());
    }
    launch_.input = static_cast<const char*>(operands.input);
    return launch_;
  }

  [[nodiscard]] void* output() const { return own_rows(heap().rank()) == 0 ? nullptr : heap().local(result_); }

  const AllToAllLaunch* upload(const std::vector<AllToAllLaunch>& launches, cudaStream_t stream) {
    return virtual_parameters_.upload(call_.memory(), launches, stream);
  }

  [[nodiscard]] HeapRank& heap() const { return call_.heap(); }
  [[nodiscard]] const all_to_all::Plan& plan() const { return plan_; }
  [[nodiscard]] const all_to_all::Problem& problem() const { return problem_; }
  void launched(int blocks, cudaStream_t stream) { call_.launched(blocks, stream); }
  void check() const { call_.check(); }
  void synchronise() const { call_.synchronise(); }
  void restore() { call_.restore(); }

 private:
  static const all_to_all::Problem& checked(const all_to_all::Problem& problem, const HeapRank& heap,
                                            std::chrono::microseconds time_out) {
    kernels::check_time_out(time_out);
    all_to_all::check_problem(problem, heap.world());
    kernels::require_hopper(heap.device());
    return problem;
  }

  /// Called before anything is allocated, so that a rank that differs has not changed.
  static all_to_all::Plan agreed(const all_to_all::Problem& problem, const all_to_all::Plan& plan, HeapRank& heap) {
    const all_to_all::Plan complete =
        all_to_all::complete_plan(problem, plan, heap.world(), kernels::multiprocessors(heap.device()));
    heap.agree(all_to_all::statement(problem, complete));
    return complete;
  }

  [[nodiscard]] std::int64_t own_rows(int rank) const { return row_range(problem_.rows, rank, heap().world()).count; }

  void fill_constant_parameters() {
    const cuda::CurrentDevice current(heap().device());
    const int world = heap().world();
    launch_.schedule = all_to_all::make_schedule(problem_, plan_, heap().rank(), world);
    launch_.call = call_.parameters();
    launch_.stages = plan_.stages;
    launch_.stage_bytes = all_to_all::stage_bytes(problem_, plan_, world);
    launch_.boxes = plan_.transfer == all_to_all::Transfer::boxes ? 1 : 0;
    const PeerView view = heap().view(result_);
    const schedule::AllToAllShape& shape = launch_.schedule.shape();
    for (int rank = 0; rank < world; ++rank) {
      launch_.target[rank] = view.base[rank] + std::int64_t{heap().rank()} * shape.heads * shape.head_bytes;
      if (launch_.boxes != 0) {
        launch_.output[rank] = target_map(rank);
      }
    }
    kernels::load_all_to_all();
  }

  [[nodiscard]] CUtensorMap target_map(int rank) const {
    const schedule::AllToAllTiling& tiling = launch_.schedule.tiling();
    const kernels::ChunkTarget target{launch_.target[rank],           problem_.sequences, own_rows(rank),
                                      launch_.schedule.shape().heads, problem_.heads,     problem_.head_dim};
    return kernels::chunk_map(target, tiling.chunk_rows, tiling.chunk_heads);
  }

  all_to_all::Problem problem_;
  all_to_all::Plan plan_;
  kernels::CollectiveHandle call_;
  SymmetricBuffer result_{};
  kernels::VirtualParameters virtual_parameters_;
  AllToAllLaunch launch_{};
};

AllToAll::AllToAll(HeapRank& heap, const all_to_all::Problem& problem, const all_to_all::Plan& plan,
                   std::chrono::microseconds time_out)
    : state_(std::make_unique<State>(heap, problem, plan, time_out)) {}
AllToAll::AllToAll(AllToAll&&) noexcept = default;
AllToAll& AllToAll::operator=(AllToAll&&) noexcept = default;
AllToAll::~AllToAll() = default;

void AllToAll::launch(const Operands& operands, CUstream_st* stream) {
  const AllToAllLaunch& launch = state_->prepare(operands, issuers());
  const cuda::CurrentDevice current(state_->heap().device());
  kernels::launch_all_to_all(launch, stream);
  state_->launched(issuers(), stream);
}

void AllToAll::launch_together(std::span<AllToAll* const> ranks, std::span<const Operands> operands,
                               CUstream_st* stream) {
  kernels::check_common_launch(ranks, operands.size(),
                               [](const AllToAll& rank) -> const HeapRank& { return rank.state_->heap(); });
  State& first = *ranks[0]->state_;
  const int device = first.heap().device();
  const cuda::CurrentDevice current(device);
  // All virtual ranks share the multiprocessors, and each gets an equal part.
  const int blocks = std::min(kernels::multiprocessors(device) / static_cast<int>(ranks.size()), first.plan().issuers);
  std::vector<AllToAllLaunch> launches;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    launches.push_back(ranks[rank]->state_->prepare(operands[rank], blocks));
  }
  kernels::launch_virtual_all_to_all(first.upload(launches, stream), launches[0], first.heap().world(), stream);
  for (AllToAll* const rank : ranks) {
    rank->state_->launched(blocks, stream);
  }
}

void* AllToAll::output() const { return state_->output(); }
void AllToAll::check() const { state_->check(); }

void AllToAll::reset(std::span<AllToAll* const> ranks) {
  for (AllToAll* rank : ranks) {
    rank->state_->synchronise();
  }
  for (AllToAll* rank : ranks) {
    rank->state_->restore();
  }
}

const all_to_all::Plan& AllToAll::plan() const { return state_->plan(); }
const all_to_all::Problem& AllToAll::problem() const { return state_->problem(); }
int AllToAll::issuers() const { return state_->plan().issuers; }

}  // namespace xstage
