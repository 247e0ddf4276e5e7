// Attention, one rank's handle: it owns the buffers in the symmetric heap, makes tensor maps from addresses, and
// launches.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "device/device_memory.hpp"
#include "device/device_setup.hpp"
#include "fabric/common_launch.hpp"
#include "fabric/handle.hpp"
#include "ops/attention/device/attention.hpp"
#include "ops/attention/device/head_map.hpp"
#include "ops/attention/device/layout.hpp"
#include "ops/attention/device/split_tiles.hpp"
#include "ops/attention/problem.hpp"
#include "xstage/attention.hpp"
#include "xstage/error.hpp"

namespace xstage {

using attention::Destination;
using attention::Operands;
using kernels::AttentionLaunch;
using kernels::CallPad;

static_assert(attention::tile_rows == kernels::attention_tile_rows);
static_assert(attention::block_keys == kernels::attention_block_keys);
static_assert(attention::slab_rows == kernels::warpgroup_rows);

namespace {

constexpr std::int64_t element_bytes = 2;
constexpr std::size_t ticket_words = 2;

float scale_of(const attention::Problem& problem) {
  return problem.scale > 0 ? problem.scale : 1.0F / std::sqrt(static_cast<float>(problem.head_dim));
}

}  // namespace

class Attention::State {
 public:
  State(HeapRank& heap, const attention::Problem& problem, const attention::Plan& plan,
        std::chrono::microseconds time_out)
      : problem_(checked(problem, heap, time_out)),
        plan_(agreed_plan(problem, plan, heap)),
        call_(heap, "attention", static_cast<std::size_t>(attention::slabs(problem)), time_out) {
    if (problem_.destination != Destination::local) {
      result_ = call_.take("output", attention::symmetric_result_bytes(problem_, heap.world()));
    }
    call_.finish_setup();
    fill_constant_parameters();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  /// Parameters for these operands. Tensor maps are made anew only when an address changes.
  const AttentionLaunch& prepare(const Operands& operands, int blocks, Completion completion) {
    check_operands(operands);
    call_.prepare(blocks);
    if (blocks != blocks_) {
      deal_out(blocks);
    }
    if (!prepared_ || operands.query != operands_.query || operands.key != operands_.key ||
        operands.value != operands_.value || operands.output != operands_.output) {
      make_operand_maps(operands);
    }
    launch_.log_sum_exp = operands.log_sum_exp;
    launch_.leaves_early = completion == Completion::sent ? 1 : 0;
    set_inputs(operands);
    operands_ = operands;
    prepared_ = true;
    return launch_;
  }

  void await_arrival(CUstream_st* stream) {
    if (among_ranks()) {
      call_.await_arrival(kernels::attend_warpgroups, stream);
    }
  }

  [[nodiscard]] kernels::AttentionLaunchShape shape(int blocks) const {
    return {problem_.head_dim, problem_.element, blocks, instrumented_};
  }

  void restore() {
    if (launch_.tickets != nullptr) {
      cuda::DeviceSetup::of(heap().device()).fill(launch_.tickets, 0x00, ticket_words * sizeof(std::uint32_t));
    }
    split_.clear();
    call_.restore();
  }

  void instrument(const attention::Instruments& instruments) {
    instrumented_ = instruments.spans != nullptr || instruments.longest_delay_ns != 0;
    launch_.probe = {static_cast<kernels::SpanRecord*>(instruments.spans), instruments.spans_each,
                     instruments.longest_delay_ns, instruments.delay_seed};
    const cuda::CurrentDevice current(heap().device());
    kernels::load_attention(shape(plan_.issuers));
  }

  [[nodiscard]] void* output() const {
    if (problem_.destination == Destination::local) {
      throw InputError("a local attention has no symmetric output: it writes into the caller's tensor");
    }
    const bool owns_rows = problem_.destination == Destination::twin ||
                           attention::row_range(problem_.rows, heap().rank(), heap().world()).count > 0;
    return owns_rows ? heap().local(result_) : nullptr;
  }

  [[nodiscard]] attention::Arrivals arrivals() const {
    if (problem_.destination != Destination::to_owners) {
      throw InputError("only results that go to their owners are counted on arrival");
    }
    return {parameters().signals[heap().rank()] + CallPad::arrivals, attention::slabs(problem_) / problem_.sequences,
            static_cast<std::uint32_t>(problem_.heads)};
  }

  const AttentionLaunch* upload(const std::vector<AttentionLaunch>& launches, cudaStream_t stream) {
    return virtual_parameters_.upload(call_.memory(), launches, stream);
  }

  [[nodiscard]] HeapRank& heap() const { return call_.heap(); }
  [[nodiscard]] const attention::Plan& plan() const { return plan_; }
  [[nodiscard]] const attention::Problem& problem() const { return problem_; }
  void launched(int blocks, cudaStream_t stream) { call_.launched(blocks, stream); }
  void check() const { call_.check(); }
  void synchronise() const { call_.synchronise(); }

 private:
  static const attention::Problem& checked(const attention::Problem& problem, const HeapRank& heap,
                                           std::chrono::microseconds time_out) {
    kernels::check_time_out(time_out);
    attention::check_problem(problem, heap.world());
    kernels::require_hopper(heap.device());
    return problem;
  }

  /// The first collective step. A rank that is refused has allocated nothing, and may try again.
  static attention::Plan agreed_plan(const attention::Problem& problem, const attention::Plan& plan, HeapRank& heap) {
    const int count = kernels::multiprocessors(heap.device());
    attention::Plan complete = attention::complete_plan(problem, plan, heap.world(), count);
    heap.agree(attention::statement(problem, complete));
    return complete;
  }

  [[nodiscard]] const kernels::CallParameters& parameters() const { return call_.parameters(); }
  [[nodiscard]] bool among_ranks() const {
    return problem_.destination == Destination::to_owners && heap().world() > 1;
  }
  [[nodiscard]] int own_heads() const { return problem_.heads / heap().world(); }

  void fill_constant_parameters() {
    const cuda::CurrentDevice current(heap().device());
    launch_.schedule = attention::make_schedule(problem_, heap().rank(), heap().world());
    launch_.call = parameters();
    if (!among_ranks()) {
      launch_.call.world = 1;
    }
    constexpr float log2_of_e = 1.44269504F;
    launch_.scale_log2 = scale_of(problem_) * log2_of_e;
    if (problem_.causal) {
      launch_.tickets = call_.memory().take<std::uint32_t>(ticket_words, "tiles drawn");
    }
    deal_out(plan_.issuers);
    fill_destinations();
    kernels::load_attention(shape(plan_.issuers));
    restore();
  }

  /// Deals the tiles to `blocks` CTAs.
  void deal_out(int blocks) {
    blocks_ = blocks;
    launch_.whole_tiles = launch_.schedule.tiles();
    if (plan_.split != 0) {
      split_ = kernels::SplitTiles(call_.memory(), launch_.schedule, blocks, problem_.head_dim);
      launch_.split = split_.parameters();
      launch_.whole_tiles = schedule::whole_tiles(launch_.schedule, blocks);
    }
    // Shares of split tiles come last. Unless all of their rows are this rank's own, no whole tile may count as the
    // last one with rows of peers.
    const std::int32_t first_own = launch_.schedule.first_own_tile();
    launch_.first_own_work = launch_.whole_tiles >= first_own ? first_own : std::numeric_limits<std::int32_t>::max();
  }

  void fill_destinations() {
    kernels::AttentionDestinations& destinations = launch_.destinations;
    destinations.store_interval_ns = static_cast<std::uint32_t>(plan_.store_interval_ns);
    destinations.direct = plan_.store_path == StorePath::bulk ? 0 : 1;
    destinations.slabs = problem_.destination == Destination::to_owners
                             ? static_cast<std::int32_t>(attention::slabs(problem_) / problem_.sequences)
                             : 0;
    if (problem_.destination == Destination::local) {
      destinations.count = 1;
      destinations.row_begin[1] = static_cast<std::int32_t>(problem_.rows);
      destinations.heads = own_heads();
      return;
    }
    const int world = heap().world();
    destinations.count = world;
    destinations.own = heap().rank();
    destinations.heads = problem_.heads;
    destinations.first_head = heap().rank() * own_heads();
    const PeerView view = heap().view(result_);
    char* twin = view.base[heap().rank()];
    for (int rank = 0; rank < world; ++rank) {
      const attention::RowRange rows = attention::row_range(problem_.rows, rank, world);
      destinations.row_begin[rank] = static_cast<std::int32_t>(rows.begin);
      destinations.row_begin[rank + 1] = static_cast<std::int32_t>(rows.begin + rows.count);
      destinations.base[rank] = problem_.destination == Destination::twin ? twin : view.base[rank];
      twin += problem_.sequences * rows.count * problem_.heads * problem_.head_dim * element_bytes;
    }
    for (int rank = 0; rank < world; ++rank) {
      const std::int64_t rows = destinations.row_begin[rank + 1] - destinations.row_begin[rank];
      launch_.output[rank] = result_map(destinations.base[rank], rows, problem_.heads, rank == destinations.own);
    }
  }

  [[nodiscard]] CUtensorMap result_map(const void* address, std::int64_t rows, int heads, bool whole) const {
    return kernels::head_map({address, problem_.sequences, rows, heads, problem_.head_dim, problem_.element},
                             whole ? kernels::warpgroup_rows : kernels::remote_store_rows,
                             whole ? problem_.head_dim / kernels::half_columns : 1);
  }

  void check_operands(const Operands& operands) const {
    kernels::check_operand("query", operands.query);
    kernels::check_operand("key", operands.key);
    kernels::check_operand("value", operands.value);
    if (problem_.destination == Destination::local) {
      kernels::check_operand("output", operands.output);
    }
    if (operands.log_sum_exp != nullptr) {
      kernels::check_operand("log_sum_exp", operands.log_sum_exp);
    }
    if (operands.arrivals && instrumented_) {
      throw InputError("an instrumented attention begins when its operands are there: leave out `arrivals`");
    }
    if (operands.arrivals) {
      attention::check_arrivals(problem_, heap().world(), *operands.arrivals);
    }
  }

  /// A single rank has no peer to wait for, and the kernel of its projection has ended.
  void set_inputs(const Operands& operands) {
    launch_.inputs = {};
    if (!operands.arrivals || !among_ranks()) {
      return;
    }
    const attention::InputArrivals& arrivals = *operands.arrivals;
    launch_.inputs.next_call = arrivals.query.next_call;
    launch_.inputs.source_flags = static_cast<std::int32_t>(arrivals.query.source_flags);
    launch_.inputs.source_rows = static_cast<std::int32_t>(arrivals.query.source_rows);
    launch_.inputs.tile_columns = arrivals.query.tile_columns;
    const TileArrivals* parts[] = {&arrivals.query, &arrivals.key, &arrivals.value};
    for (std::size_t part = 0; part < 3; ++part) {
      launch_.inputs.flags[part] = parts[part]->flags;
      launch_.inputs.column_tiles[part] = parts[part]->column_tiles;
    }
  }

  void make_operand_maps(const Operands& operands) {
    const int halves = problem_.head_dim / kernels::half_columns;
    const int key_heads = problem_.kv_heads / heap().world();
    launch_.query = kernels::head_map(
        {operands.query, problem_.sequences, problem_.rows, own_heads(), problem_.head_dim, problem_.element},
        kernels::warpgroup_rows, halves);
    const auto key_map = [&](const void* address) {
      return kernels::head_map(
          {address, problem_.sequences, problem_.keys, key_heads, problem_.head_dim, problem_.element},
          kernels::attention_block_keys, halves);
    };
    launch_.key = key_map(operands.key);
    launch_.value = key_map(operands.value);
    if (problem_.destination == Destination::local) {
      launch_.output[0] = result_map(operands.output, problem_.rows, own_heads(), true);
      launch_.destinations.base[0] = static_cast<char*>(operands.output);
    }
  }

  attention::Problem problem_;
  attention::Plan plan_;
  kernels::CollectiveHandle call_;
  SymmetricBuffer result_{};
  kernels::SplitTiles split_;
  kernels::VirtualParameters virtual_parameters_;
  AttentionLaunch launch_{};
  Operands operands_;
  int blocks_ = 0;  // CTAs to which the tiles are dealt
  bool prepared_ = false;
  bool instrumented_ = false;
};

Attention::Attention(HeapRank& heap, const attention::Problem& problem, const attention::Plan& plan,
                     std::chrono::microseconds time_out)
    : state_(std::make_unique<State>(heap, problem, plan, time_out)) {}
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;
Attention::~Attention() = default;

void Attention::launch(const Operands& operands, CUstream_st* stream, Completion completion) {
  const AttentionLaunch& launch = state_->prepare(operands, issuers(), completion);
  const cuda::CurrentDevice current(state_->heap().device());
  kernels::launch_attention(launch, state_->shape(issuers()), stream);
  state_->launched(issuers(), stream);
}

void Attention::launch_together(std::span<Attention* const> ranks, std::span<const Operands> operands,
                                CUstream_st* stream, Completion completion) {
  kernels::check_common_launch(ranks, operands.size(),
                               [](const Attention& rank) -> const HeapRank& { return rank.state_->heap(); });
  State& first = *ranks[0]->state_;
  const int device = first.heap().device();
  const cuda::CurrentDevice current(device);
  // All virtual ranks share the multiprocessors.
  const int share = kernels::multiprocessors(device) / static_cast<int>(ranks.size());
  const int blocks = std::min(share, first.plan().issuers);
  std::vector<AttentionLaunch> launches;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (operands[rank].arrivals) {
      throw InputError("virtual ranks begin when their operands are there: leave out `arrivals`");
    }
    launches.push_back(ranks[rank]->state_->prepare(operands[rank], blocks, completion));
  }
  kernels::launch_virtual_attention(first.upload(launches, stream), first.heap().world(), first.shape(blocks), stream);
  for (Attention* const rank : ranks) {
    rank->state_->launched(blocks, stream);
  }
}

void Attention::await_arrival(CUstream_st* stream) const { state_->await_arrival(stream); }
void* Attention::output() const { return state_->output(); }
attention::Arrivals Attention::arrivals() const { return state_->arrivals(); }
void Attention::check() const { state_->check(); }

void Attention::reset(std::span<Attention* const> ranks) {
  for (Attention* rank : ranks) {
    rank->state_->synchronise();
  }
  for (Attention* rank : ranks) {
    rank->state_->restore();
  }
}

void Attention::instrument(const attention::Instruments& instruments) { state_->instrument(instruments); }
const attention::Plan& Attention::plan() const { return state_->plan(); }
const attention::Problem& Attention::problem() const { return state_->problem(); }
int Attention::issuers() const { return state_->plan().issuers; }

}  // namespace xstage
