// Gemm, one rank's handle: it owns the buffers in the symmetric heap, makes tensor maps from addresses, and launches.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "device/device_memory.hpp"
#include "device/device_setup.hpp"
#include "device/tensor_map.hpp"
#include "fabric/common_launch.hpp"
#include "fabric/handle.hpp"
#include "ops/gemm/device/copy_gather.hpp"
#include "ops/gemm/device/gemm.hpp"
#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"

namespace xstage {

using gemm::Layout;
using gemm::MatrixShape;
using gemm::Operands;
using gemm::Operation;
using kernels::CallPad;
using kernels::GemmLaunch;

namespace {

constexpr std::size_t element_bytes = 2;

std::size_t bytes_of(const MatrixShape& shape) {
  return static_cast<std::size_t>(shape.rows * shape.columns) * element_bytes;
}

void check_pointer(const char* name, const void* pointer, bool needed) {
  if (needed) {
    kernels::check_operand(name, pointer);
  }
}

}  // namespace

class Gemm::State {
 public:
  State(HeapRank& heap, const gemm::Problem& problem, const Plan& plan, std::chrono::microseconds time_out)
      : problem_(checked(problem, heap, time_out)),
        plan_(agreed_plan(problem, plan, heap)),
        layout_(gemm::make_layout(problem_, plan_, heap.rank(), heap.world())),
        call_(heap, gemm::operation_name(problem_.operation), static_cast<std::size_t>(layout_.tile_flags), time_out) {
    take_buffers();
    call_.finish_setup();
    fill_constant_parameters();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  /// Adapts the plan to `blocks` CTAs. Virtual ranks share the multiprocessors, so that a CTA may have several tiles
  /// where the plan relies on one.
  void plan_for_blocks(int blocks) {
    if (blocks < plan_.issuers && plan_.staging_over_ring == 1) {
      plan_ = gemm::with_own_staging(problem_, plan_, heap().world());
      place_shared_memory();
    }
  }

  /// Parameters for these operands. Tensor maps are made anew only when an address changes.
  const GemmLaunch& prepare(const Operands& operands, int blocks, Completion completion) {
    check_operands(operands);
    call_.prepare(blocks);
    if (!prepared_ || operands.a != operands_.a || operands.b != operands_.b || operands.output != operands_.output) {
      make_operand_maps(operands);
    }
    launch_.leaves_early = completion == Completion::sent ? 1 : 0;
    launch_.epilogue.bias = problem_.bias ? operands.bias : nullptr;
    launch_.epilogue.norm_weight = operands.norm_weight;
    launch_.epilogue.rotary = operands.rotary;
    operands_ = operands;
    prepared_ = true;
    return launch_;
  }

  [[nodiscard]] kernels::GemmLaunchShape shape(int blocks) const {
    return {plan_.tile_columns,
            blocks,
            plan_.cluster_rows * plan_.cluster_columns,
            static_cast<int>(gemm::shared_layout(problem_, plan_, heap().world()).bytes),
            layout_.transforms,
            instrumented_};
  }

  void restore() {
    if (layout_.exchange_bytes > 0) {
      cuda::DeviceSetup::of(heap().device())
          .fill(heap().local(exchange_), kernels::empty_exchange_byte, exchange_.bytes);
    }
    call_.restore();
  }

  void check() const { call_.check(); }
  void synchronise() const { call_.synchronise(); }
  void launched(int blocks, cudaStream_t stream) { call_.launched(blocks, stream); }
  void used_on(cudaStream_t stream) { call_.used_on(stream); }

  void instrument(const gemm::Instruments& instruments) {
    instrumented_ = instruments.spans != nullptr || instruments.longest_delay_ns != 0;
    launch_.probe = {static_cast<kernels::SpanRecord*>(instruments.spans), instruments.spans_each,
                     instruments.longest_delay_ns, instruments.delay_seed};
    const cuda::CurrentDevice current(heap().device());
    kernels::load_gemm(shape(plan_.issuers));
  }

  [[nodiscard]] HeapRank& heap() const { return call_.heap(); }
  /// The copies of an all-gather by copy engine; null for other operations.
  [[nodiscard]] kernels::CopyGather* copies() const { return copies_.get(); }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const gemm::Problem& problem() const { return problem_; }

  [[nodiscard]] void* output(int part) const {
    if (part < 0 || static_cast<std::size_t>(part) >= outputs_.size()) {
      throw InputError(fmt::format("{} has no symmetric output {}: it has {}", gemm::operation_name(problem_.operation),
                                   part, outputs_.size()));
    }
    return heap().local(outputs_[static_cast<std::size_t>(part)]);
  }

  void await_arrival(CUstream_st* stream) {
    if (layout_.waits_done) {
      call_.await_arrival(kernels::store_warps, stream);
    }
  }

  [[nodiscard]] TileArrivals arrivals(int part) const {
    if (problem_.operation != Operation::all_to_all) {
      throw InputError(
          fmt::format("{} has no flags of arrivals: gemm_all_to_all has", gemm::operation_name(problem_.operation)));
    }
    static_cast<void>(output(part));  // throws unless there is such a part
    const auto index = static_cast<std::size_t>(part);
    const std::int64_t columns = layout_.symmetric_outputs[index].columns;
    const std::uint32_t* signals = launch_.call.signals[heap().rank()];
    return {.flags = signals + CallPad::arrivals + layout_.part_flags[index],
            .next_call = signals + CallPad::epochs,
            .source_flags = layout_.source_flags,
            .source_rows = gemm::row_range(problem_.m, 0, heap().world()).count,
            .column_tiles = static_cast<std::int32_t>((columns + plan_.tile_columns - 1) / plan_.tile_columns),
            .tile_columns = plan_.tile_columns};
  }

  const GemmLaunch* upload(const std::vector<GemmLaunch>& launches, cudaStream_t stream) {
    return virtual_parameters_.upload(call_.memory(), launches, stream);
  }

 private:
  static const gemm::Problem& checked(const gemm::Problem& problem, const HeapRank& heap,
                                      std::chrono::microseconds time_out) {
    kernels::check_time_out(time_out);
    gemm::check_problem(problem, heap.world());
    kernels::require_hopper(heap.device());
    return problem;
  }

  /// Called before anything is allocated, so that a rank that differs has not changed.
  static Plan agreed_plan(const gemm::Problem& problem, const Plan& plan, HeapRank& heap) {
    const Plan complete = gemm::complete_plan(problem, plan, heap.world(), kernels::multiprocessors(heap.device()));
    heap.agree(gemm::statement(problem, complete));
    return complete;
  }

  void take_buffers() {
    if (layout_.slots.rows > 0) {
      slots_ = call_.take(
          "slots", static_cast<std::size_t>(layout_.slots.rows * layout_.slots.columns * layout_.slot_element_bytes));
    }
    if (layout_.exchange_bytes > 0) {
      exchange_ = call_.take("exchange", static_cast<std::size_t>(layout_.exchange_bytes));
    }
    for (int buffer = 0; buffer < layout_.gather.buffers; ++buffer) {
      gathered_[static_cast<std::size_t>(buffer)] = call_.take("gathered operand", bytes_of(layout_.gathered));
    }
    for (const MatrixShape& output : layout_.symmetric_outputs) {
      outputs_.push_back(call_.take("output", bytes_of(output)));
    }
  }

  void fill_constant_parameters() {
    const cuda::CurrentDevice current(heap().device());
    launch_.call = call_.parameters();
    if (layout_.exchange_bytes > 0) {
      const PeerView exchange = heap().view(exchange_);
      std::copy_n(exchange.base, heap().world(), launch_.exchange);
      launch_.exchange_half_tiles = static_cast<std::int32_t>(layout_.exchange_half_tiles);
    }
    launch_.schedule = layout_.schedule;
    launch_.plain = layout_.plain ? 1 : 0;
    std::copy(layout_.targets.begin(), layout_.targets.end(), launch_.target);
    launch_.gather = layout_.gather;
    launch_.depth_blocks =
        static_cast<std::int32_t>((layout_.a.columns + kernels::gemm_tile_depth - 1) / kernels::gemm_tile_depth);
    launch_.staging = plan_.staging_chunks;
    launch_.window = plan_.window;
    launch_.store_rows = plan_.store_rows;
    launch_.store_interval_ns = static_cast<std::uint32_t>(plan_.store_interval_ns);
    launch_.push_interval_ns = static_cast<std::uint32_t>(plan_.push_interval_ns);
    launch_.multicast_a = plan_.cluster_columns > 1 ? 1 : 0;
    launch_.cluster_size = plan_.cluster_rows * plan_.cluster_columns;
    place_shared_memory();
    launch_.slot_rows = static_cast<std::int32_t>(layout_.slot_rows);
    launch_.own_rows = static_cast<std::int32_t>(layout_.a.rows);
    launch_.waits_done = layout_.waits_done ? 1 : 0;
    launch_.heap_outputs = static_cast<std::int32_t>(layout_.outputs.size());
    launch_.epilogue.activation = static_cast<kernels::GemmActivation>(problem_.activation);
    launch_.epilogue.gated = problem_.gated ? 1 : 0;
    launch_.epilogue.norm_epsilon = problem_.norm_epsilon;
    launch_.epilogue.head_dim = problem_.head_dim;
    launch_.epilogue.positions = static_cast<std::int32_t>(problem_.m);
    if (problem_.operation == Operation::all_to_all) {
      launch_.epilogue.position_begin =
          static_cast<std::int32_t>(gemm::row_range(problem_.m, heap().rank(), heap().world()).begin);
    }
    make_heap_maps();
    make_copy_gather();
    kernels::load_gemm(shape(plan_.issuers));
    restore();
  }

  /// Computes the offsets that SharedMemory in context.cuh describes.
  void place_shared_memory() {
    const gemm::SharedLayout shared = gemm::shared_layout(problem_, plan_, heap().world());
    launch_.stages = plan_.stages;
    launch_.stage_bytes = static_cast<std::int32_t>(shared.stage_bytes);
    launch_.stage_blocks = plan_.stage_blocks;
    launch_.tile_stages = launch_.depth_blocks / plan_.stage_blocks;
    launch_.a_half_bytes = static_cast<std::int32_t>(shared.a_half_bytes);
    launch_.a_block_bytes = static_cast<std::int32_t>(shared.a_block_bytes);
    launch_.b_offset = static_cast<std::int32_t>(shared.b_offset);
    launch_.staging_offset = static_cast<std::int32_t>(shared.staging_offset);
    launch_.push_offset = static_cast<std::int32_t>(shared.push_offset);
    launch_.barriers_offset = static_cast<std::int32_t>(shared.barriers_offset);
    launch_.staging_over_ring = plan_.staging_over_ring;
    launch_.warpgroups = gemm::multiplying_warpgroups(problem_, heap().world());
    launch_.load_bytes =
        ((plan_.cluster_columns > 1 ? kernels::gemm_tile_rows : rows_of_a_load()) + plan_.tile_columns) *
        kernels::gemm_tile_depth * 2 * plan_.stage_blocks;
  }

  void check_operands(const Operands& operands) const {
    check_pointer("a", operands.a, layout_.a.rows > 0);
    check_pointer("b", operands.b, true);
    check_pointer("output", operands.output, layout_.user_output.rows > 0);
    check_pointer("bias", operands.bias, problem_.bias);
    bool norm = false;
    bool rotary = false;
    for (const gemm::HeadPart& part : problem_.parts) {
      norm = norm || part.norm;
      rotary = rotary || part.rotary;
    }
    check_pointer("norm_weight", operands.norm_weight, norm);
    check_pointer("rotary", operands.rotary, rotary);
  }

  [[nodiscard]] char* destination(const gemm::OutputTarget& target) const {
    const SymmetricBuffer& buffer =
        target.place == gemm::Place::slot ? slots_ : outputs_[static_cast<std::size_t>(target.part)];
    return heap().view(buffer).base[target.rank];
  }

  [[nodiscard]] int rows_of_a_load() const { return gemm::rows_of_a_load(problem_, plan_, heap().world()); }
  [[nodiscard]] int rows_of_b_load() const {
    return plan_.cluster_rows > 1 ? plan_.tile_columns / 2 : plan_.tile_columns;
  }

  [[nodiscard]] CUtensorMap operand_map(const void* address, const gemm::MatrixShape& shape, int box_rows) const {
    return plan_.stage_blocks > 1
               ? kernels::blocked_matrix_map(address, shape.rows, shape.columns, box_rows, plan_.stage_blocks)
               : kernels::matrix_map(address, shape.rows, shape.columns, box_rows);
  }

  void make_operand_maps(const Operands& operands) {
    using kernels::matrix_map;
    // A rank without rows still takes part. Its maps must be valid, and are never used for data.
    const void* a = operands.a != nullptr ? operands.a : operands.b;
    const void* output = operands.output != nullptr ? operands.output : operands.b;
    launch_.a = operand_map(a, layout_.a, rows_of_a_load());
    launch_.b = operand_map(operands.b, layout_.b, rows_of_b_load());
    launch_.push_input = matrix_map(a, layout_.a.rows, layout_.a.columns, kernels::push_rows);
    for (std::size_t region = 0; region < layout_.local_outputs.size(); ++region) {
      const gemm::LocalOutput& part = layout_.local_outputs[region];
      const auto* address = static_cast<const char*>(output) +
                            part.row_begin * part.shape.columns * static_cast<std::int64_t>(element_bytes);
      launch_.output[region] = matrix_map(part.shape.rows > 0 ? static_cast<const void*>(address) : output,
                                          part.shape.rows, part.shape.columns, 64);
    }
  }

  [[nodiscard]] CUtensorMap slot_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows) const {
    return problem_.fp32_partials ? kernels::wide_matrix_map(address, rows, columns, box_rows)
                                  : kernels::matrix_map(address, rows, columns, box_rows);
  }

  [[nodiscard]] CUtensorMap output_map(std::size_t index) const {
    const gemm::OutputTarget& target = layout_.outputs[index];
    const bool slot = target.place == gemm::Place::slot;
    const std::int64_t pitch = target.pitch > 0 ? target.pitch : target.shape.columns;
    const std::int64_t offset = (target.row_begin * pitch + target.column_begin) *
                                (slot ? layout_.slot_element_bytes : static_cast<std::int64_t>(element_bytes));
    const bool empty = target.shape.rows == 0 || target.shape.columns == 0;
    const char* address = destination(target) + (empty ? 0 : offset);
    const int box_rows = layout_.targets_remote(index) ? plan_.store_rows : 64;
    return slot ? slot_map(address, target.shape.rows, target.shape.columns, box_rows)
                : kernels::matrix_map(address, target.shape.rows, target.shape.columns, box_rows, pitch);
  }

  /// Makes the maps of everything in the heap once, in device memory.
  void make_heap_maps() {
    using kernels::matrix_map;
    kernels::HeapMaps maps{};
    if (layout_.slots.rows > 0) {
      maps.slots = slot_map(heap().local(slots_), layout_.slots.rows, layout_.slot_columns, 64);
    }
    for (std::size_t index = 0; index < layout_.outputs.size(); ++index) {
      maps.output[index] = output_map(index);
    }
    const std::int64_t first = gemm::row_range(problem_.m, heap().rank(), heap().world()).begin;
    const std::int64_t shard = layout_.a.rows > 0 ? first * problem_.k * static_cast<std::int64_t>(element_bytes) : 0;
    for (int buffer = 0; buffer < layout_.gather.buffers; ++buffer) {
      const PeerView view = heap().view(gathered_[static_cast<std::size_t>(buffer)]);
      maps.gathered[buffer] =
          matrix_map(view.base[heap().rank()], layout_.gathered.rows, layout_.gathered.columns, rows_of_a_load());
      for (int rank = 0; rank < heap().world(); ++rank) {
        maps.gather_output[buffer][rank] =
            matrix_map(view.base[rank] + shard, layout_.a.rows, problem_.k, kernels::push_rows);
      }
    }
    auto* there = call_.memory().take<kernels::HeapMaps>(1, "tensor maps");
    cuda::DeviceSetup& setup = cuda::DeviceSetup::of(heap().device());
    setup.copy(there, &maps, sizeof(maps));
    setup.wait();
    launch_.heap = there;
  }

  void make_copy_gather() {
    if (layout_.gather.buffers == 0 || layout_.gather.push != 0) {
      return;
    }
    const kernels::CopyGatherShape shape{
        layout_.a.rows, gemm::row_range(problem_.m, heap().rank(), heap().world()).begin, problem_.k, layout_.gather};
    copies_ = std::make_unique<kernels::CopyGather>(heap().device(), shape, heap().view(gathered_[0]), launch_.call);
    launch_.waits_sent = 1;
  }

  gemm::Problem problem_;
  Plan plan_;
  Layout layout_;
  kernels::CollectiveHandle call_;
  SymmetricBuffer slots_{};
  SymmetricBuffer exchange_{};
  std::array<SymmetricBuffer, 2> gathered_{};
  std::vector<SymmetricBuffer> outputs_;
  GemmLaunch launch_{};
  Operands operands_;
  kernels::VirtualParameters virtual_parameters_;
  std::unique_ptr<kernels::CopyGather> copies_;
  bool prepared_ = false;
  bool instrumented_ = false;
};

Gemm::Gemm(HeapRank& heap, const gemm::Problem& problem, const Plan& plan, std::chrono::microseconds time_out)
    : state_(std::make_unique<State>(heap, problem, plan, time_out)) {}
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

void Gemm::launch(const Operands& operands, CUstream_st* stream, Completion completion) {
  const GemmLaunch& launch = state_->prepare(operands, issuers(), completion);
  const cuda::CurrentDevice current(state_->heap().device());
  kernels::CopyGather* copies = state_->copies();
  if (copies != nullptr) {
    copies->start(launch, operands.a, stream);
    state_->used_on(stream);  // noted also if the launch fails
  }
  kernels::launch_gemm(launch, state_->shape(issuers()), stream);
  state_->launched(issuers(), stream);
  if (copies != nullptr) {
    copies->join(stream);
  }
}

void Gemm::launch_together(std::span<Gemm* const> ranks, std::span<const Operands> operands, CUstream_st* stream,
                           Completion completion) {
  kernels::check_common_launch(ranks, operands.size(),
                               [](const Gemm& rank) -> const HeapRank& { return rank.state_->heap(); });
  State& first = *ranks[0]->state_;
  const cuda::CurrentDevice current(first.heap().device());
  // All virtual ranks share the multiprocessors, and each gets an equal part, in whole clusters.
  const int cluster = first.plan().cluster_rows * first.plan().cluster_columns;
  const int share =
      kernels::multiprocessors(first.heap().device()) / static_cast<int>(ranks.size()) / cluster * cluster;
  const int blocks = std::min(share, first.plan().issuers);
  std::vector<GemmLaunch> launches;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    State& state = *ranks[rank]->state_;
    if (state.copies() != nullptr) {
      throw InputError("virtual ranks gather by push only: copies would need a launch for each rank");
    }
    const GemmLaunch& launch = state.prepare(operands[rank], blocks, completion);
    state.plan_for_blocks(blocks);
    launches.push_back(launch);
  }
  const kernels::GemmLaunchShape shape = first.shape(blocks);
  kernels::launch_virtual_gemm(first.upload(launches, stream), first.heap().world(), shape, stream);
  for (Gemm* const rank : ranks) {
    rank->state_->launched(blocks, stream);
  }
}

void Gemm::await_arrival(CUstream_st* stream) const { state_->await_arrival(stream); }
TileArrivals Gemm::arrivals(int part) const { return state_->arrivals(part); }
void* Gemm::output(int part) const { return state_->output(part); }
void Gemm::check() const { state_->check(); }

void Gemm::reset(std::span<Gemm* const> ranks) {
  for (Gemm* rank : ranks) {
    rank->state_->synchronise();
  }
  for (Gemm* rank : ranks) {
    rank->state_->restore();
  }
}

void Gemm::instrument(const gemm::Instruments& instruments) { state_->instrument(instruments); }
const Plan& Gemm::plan() const { return state_->plan(); }
const gemm::Problem& Gemm::problem() const { return state_->problem(); }
int Gemm::issuers() const { return state_->plan().issuers; }

}  // namespace xstage
