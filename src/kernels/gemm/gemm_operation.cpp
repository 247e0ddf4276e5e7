// Gemm: one rank's handle. Owns what lies in the symmetric heap, turns addresses into tensor maps, launches.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "gemm/layout.hpp"
#include "kernels/collective/arrival_wait.hpp"
#include "kernels/collective/common_launch.hpp"
#include "kernels/collective/handle.hpp"
#include "kernels/common/tensor_map.hpp"
#include "kernels/common/wait_report_text.hpp"
#include "kernels/gemm/copy_gather.hpp"
#include "kernels/gemm/gemm.hpp"
#include "node/cuda/device_memory.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"

namespace xstage {

using gemm::Layout;
using gemm::MatrixShape;
using gemm::Operands;
using gemm::Operation;
using kernels::GemmLaunch;
using kernels::SignalPad;

// The kernel that waits for arrivals reads the same words.
static_assert(SignalPad::done == kernels::CallPad::done && SignalPad::abort == kernels::CallPad::abort &&
              SignalPad::epochs == kernels::CallPad::epochs);

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
  State(HeapRank& heap, gemm::Problem problem, const Plan& plan, std::chrono::microseconds time_out)
      : heap_(heap), problem_(std::move(problem)), buffers_(heap) {
    gemm::check_problem(problem_, heap.world());
    kernels::require_hopper(heap.device());
    const int share = kernels::multiprocessors(heap.device());
    plan_ = gemm::complete_plan(problem_, plan, heap.world(), share);
    layout_ = gemm::make_layout(problem_, plan_, heap.rank(), heap.world());
    heap.agree(gemm::statement(problem_, plan_));
    allocate();
    fill_constant_parameters(time_out);
    steps_ = heap.steps();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() = default;

  void check() const {
    if (report_.raised()) {
      throw DeviceError(
          fmt::format("{}: {}", gemm::operation_name(problem_.operation), kernels::describe(*report_.get())));
    }
  }

  /// Every launch of a handle must have as many CTAs: each keeps its own epoch.
  void fix_blocks(int blocks) {
    if (blocks_ != 0 && blocks_ != blocks) {
      throw InputError(
          fmt::format("this handle has been launched with {} CTAs, now with {}: use launch or launch_together, "
                      "not both",
                      blocks_, blocks));
    }
    blocks_ = blocks;
  }

  /// Virtual ranks share the multiprocessors: what a plan arranges for one tile a CTA may then be impossible.
  void plan_for_blocks(int blocks) {
    if (blocks < plan_.issuers && plan_.staging_over_ring == 1) {
      plan_ = gemm::with_own_staging(problem_, plan_, heap_.world());
      place_shared_memory();
    }
  }

  /// Parameters for these operands; the maps are made anew only when an address changes.
  const GemmLaunch& prepare(const Operands& operands, Completion completion) {
    check();
    check_operands(operands);
    if (!prepared_) {
      heap_.check_complete(steps_);
    }
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
            static_cast<int>(gemm::shared_layout(problem_, plan_, heap_.world()).bytes),
            layout_.transforms,
            instrumented_};
  }

  void restore() {
    const cuda::CurrentDevice current(heap_.device());
    cuda::check(cudaDeviceSynchronize(), "waiting for the GPU before a reset");
    cuda::check(cudaMemset(heap_.local(signals_), 0, signals_.bytes), "clearing signals");
    if (layout_.exchange_bytes > 0) {
      cuda::check(cudaMemset(heap_.local(exchange_), 0xFF, exchange_.bytes), "emptying the slots of the exchange");
    }
    const std::vector<std::uint32_t> first_epochs(SignalPad::most_blocks, 1U);
    cuda::check(cudaMemcpy(static_cast<std::uint32_t*>(heap_.local(signals_)) + SignalPad::epochs, first_epochs.data(),
                           first_epochs.size() * sizeof(std::uint32_t), cudaMemcpyHostToDevice),
                "setting the first epoch");
    cuda::check(cudaDeviceSynchronize(), "waiting for the first epoch");
    report_.clear();
  }

  /// For reset: all ranks must have come to rest before one of them is cleared.
  void synchronise() const {
    const cuda::CurrentDevice current(heap_.device());
    cuda::check(cudaDeviceSynchronize(), "waiting for the GPU");
  }

  void instrument(const gemm::Instruments& instruments) {
    instrumented_ = instruments.spans != nullptr || instruments.longest_delay_ns != 0;
    launch_.probe = {static_cast<kernels::SpanRecord*>(instruments.spans), instruments.spans_each,
                     instruments.longest_delay_ns, instruments.delay_seed};
    const cuda::CurrentDevice current(heap_.device());
    kernels::load_gemm(shape(plan_.issuers));
  }

  [[nodiscard]] HeapRank& heap() const { return heap_; }
  /// Null unless the rows of an all-gather go by copy engine.
  [[nodiscard]] kernels::CopyGather* copies() const { return copies_.get(); }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const gemm::Problem& problem() const { return problem_; }

  [[nodiscard]] void* output(int part) const {
    if (part < 0 || static_cast<std::size_t>(part) >= outputs_.size()) {
      throw InputError(fmt::format("{} has no symmetric output {}: it has {}", gemm::operation_name(problem_.operation),
                                   part, outputs_.size()));
    }
    return heap_.local(outputs_[static_cast<std::size_t>(part)]);
  }

  void await_arrival(CUstream_st* stream) const {
    check();
    if (blocks_ == 0) {
      throw InputError(fmt::format("{}: await_arrival waits for what a launch stores: launch first",
                                   gemm::operation_name(problem_.operation)));
    }
    if (!layout_.waits_done) {
      return;
    }
    kernels::CallParameters call{};
    std::copy_n(launch_.signals, heap_.world(), call.signals);
    call.report = report_.get();
    call.time_out_ns = launch_.time_out_ns;
    call.rank = heap_.rank();
    call.world = heap_.world();
    const cuda::CurrentDevice current(heap_.device());
    constexpr int store_warps = 2;
    kernels::launch_arrival_wait(call, static_cast<std::uint32_t>(store_warps * blocks_), stream);
  }

  [[nodiscard]] TileArrivals arrivals(int part) const {
    if (problem_.operation != Operation::all_to_all) {
      throw InputError(
          fmt::format("{} has no flags of arrivals: gemm_all_to_all has", gemm::operation_name(problem_.operation)));
    }
    static_cast<void>(output(part));  // there is such a part
    const auto index = static_cast<std::size_t>(part);
    const std::int64_t columns = layout_.symmetric_outputs[index].columns;
    const std::uint32_t* signals = launch_.signals[heap_.rank()];
    return {.flags = signals + SignalPad::tile_flags + layout_.part_flags[index],
            .next_call = signals + SignalPad::epochs,
            .source_flags = layout_.source_flags,
            .source_rows = gemm::row_range(problem_.m, 0, heap_.world()).count,
            .column_tiles = static_cast<std::int32_t>((columns + plan_.tile_columns - 1) / plan_.tile_columns),
            .tile_columns = plan_.tile_columns};
  }

  const GemmLaunch* upload(const std::vector<GemmLaunch>& launches, cudaStream_t stream) {
    return virtual_parameters_.upload(heap().device(), launches, stream);
  }

 private:
  SymmetricBuffer take(const char* tag, std::size_t bytes) { return buffers_.take(tag, bytes); }

  void allocate() {
    signals_ = take("gemm signals", (SignalPad::tile_flags + static_cast<std::size_t>(layout_.tile_flags)) * 4);
    if (layout_.slots.rows > 0) {
      slots_ = take("gemm slots",
                    static_cast<std::size_t>(layout_.slots.rows * layout_.slots.columns * layout_.slot_element_bytes));
    }
    if (layout_.exchange_bytes > 0) {
      exchange_ = take("gemm exchange", static_cast<std::size_t>(layout_.exchange_bytes));
    }
    for (int buffer = 0; buffer < layout_.gather.buffers; ++buffer) {
      gathered_[static_cast<std::size_t>(buffer)] = take("gemm gathered operand", bytes_of(layout_.gathered));
    }
    for (const MatrixShape& output : layout_.symmetric_outputs) {
      outputs_.push_back(take("gemm output", bytes_of(output)));
    }
  }

  void fill_constant_parameters(std::chrono::microseconds time_out) {
    const cuda::CurrentDevice current(heap_.device());
    const PeerView signals = heap_.view(signals_);
    for (int rank = 0; rank < heap_.world(); ++rank) {
      launch_.signals[rank] = reinterpret_cast<std::uint32_t*>(signals.base[rank]);
    }
    if (layout_.exchange_bytes > 0) {
      const PeerView exchange = heap_.view(exchange_);
      std::copy_n(exchange.base, heap_.world(), launch_.exchange);
      launch_.exchange_half_tiles = static_cast<std::int32_t>(layout_.exchange_half_tiles);
    }
    launch_.schedule = layout_.schedule;
    launch_.plain = layout_.plain ? 1 : 0;
    std::copy(layout_.targets.begin(), layout_.targets.end(), launch_.target);
    launch_.gather = layout_.gather;
    launch_.rank = heap_.rank();
    launch_.world = heap_.world();
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
    launch_.time_out_ns = static_cast<std::uint64_t>(time_out.count()) * 1000;
    launch_.report = report_.get();
    launch_.epilogue.activation = static_cast<kernels::GemmActivation>(problem_.activation);
    launch_.epilogue.gated = problem_.gated ? 1 : 0;
    launch_.epilogue.norm_epsilon = problem_.norm_epsilon;
    launch_.epilogue.head_dim = problem_.head_dim;
    launch_.epilogue.positions = static_cast<std::int32_t>(problem_.m);
    if (problem_.operation == Operation::all_to_all) {
      launch_.epilogue.position_begin =
          static_cast<std::int32_t>(gemm::row_range(problem_.m, heap_.rank(), heap_.world()).begin);
    }
    make_heap_maps();
    make_copy_gather();
    kernels::load_gemm(shape(plan_.issuers));
    kernels::load_arrival_wait();
    restore();
  }

  /// See SharedMemory in gemm_context.cuh.
  void place_shared_memory() {
    const gemm::SharedLayout shared = gemm::shared_layout(problem_, plan_, heap_.world());
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
    launch_.warpgroups = gemm::multiplying_warpgroups(problem_, heap_.world());
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
    return heap_.view(buffer).base[target.rank];
  }

  [[nodiscard]] int rows_of_a_load() const { return gemm::rows_of_a_load(problem_, plan_, heap_.world()); }
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
    // A rank without rows still takes part; its maps must be valid, and are never used for data.
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

  /// Maps of everything in the heap, once, into device memory.
  void make_heap_maps() {
    using kernels::matrix_map;
    kernels::HeapMaps maps{};
    if (layout_.slots.rows > 0) {
      maps.slots = slot_map(heap_.local(slots_), layout_.slots.rows, layout_.slot_columns, 64);
    }
    for (std::size_t index = 0; index < layout_.outputs.size(); ++index) {
      maps.output[index] = output_map(index);
    }
    const std::int64_t first = gemm::row_range(problem_.m, heap_.rank(), heap_.world()).begin;
    const std::int64_t shard = layout_.a.rows > 0 ? first * problem_.k * static_cast<std::int64_t>(element_bytes) : 0;
    for (int buffer = 0; buffer < layout_.gather.buffers; ++buffer) {
      const PeerView view = heap_.view(gathered_[static_cast<std::size_t>(buffer)]);
      maps.gathered[buffer] =
          matrix_map(view.base[heap_.rank()], layout_.gathered.rows, layout_.gathered.columns, rows_of_a_load());
      for (int rank = 0; rank < heap_.world(); ++rank) {
        maps.gather_output[buffer][rank] =
            matrix_map(view.base[rank] + shard, layout_.a.rows, problem_.k, kernels::push_rows);
      }
    }
    heap_maps_ = cuda::DeviceBuffer(heap_.device(), sizeof(maps), "tensor maps");
    cuda::check(cudaMemcpy(heap_maps_.as<void>(), &maps, sizeof(maps), cudaMemcpyHostToDevice), "copying tensor maps");
    launch_.heap = heap_maps_.as<kernels::HeapMaps>();
  }

  void make_copy_gather() {
    if (layout_.gather.buffers == 0 || layout_.gather.push != 0) {
      return;
    }
    const kernels::CopyGatherShape shape{layout_.a.rows, gemm::row_range(problem_.m, heap_.rank(), heap_.world()).begin,
                                         problem_.k, layout_.gather};
    copies_ =
        std::make_unique<kernels::CopyGather>(heap_.device(), shape, heap_.view(gathered_[0]), heap_.view(signals_));
    launch_.waits_sent = 1;
  }

  HeapRank& heap_;
  gemm::Problem problem_;
  Plan plan_;
  Layout layout_;
  std::size_t steps_ = 0;
  kernels::HeapBuffers buffers_;
  SymmetricBuffer signals_{};
  SymmetricBuffer slots_{};
  SymmetricBuffer exchange_{};
  std::array<SymmetricBuffer, 2> gathered_{};
  std::vector<SymmetricBuffer> outputs_;
  kernels::PinnedReport report_;
  GemmLaunch launch_{};
  Operands operands_;
  cuda::DeviceBuffer heap_maps_;
  kernels::VirtualParameters virtual_parameters_;
  std::unique_ptr<kernels::CopyGather> copies_;
  bool prepared_ = false;
  bool instrumented_ = false;
  int blocks_ = 0;
};

Gemm::Gemm(HeapRank& heap, const gemm::Problem& problem, const Plan& plan, std::chrono::microseconds time_out)
    : state_(std::make_unique<State>(heap, problem, plan, time_out)) {}
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

void Gemm::launch(const Operands& operands, CUstream_st* stream, Completion completion) {
  const GemmLaunch& launch = state_->prepare(operands, completion);
  state_->fix_blocks(issuers());
  const cuda::CurrentDevice current(state_->heap().device());
  kernels::CopyGather* copies = state_->copies();
  if (copies != nullptr) {
    copies->start(launch, operands.a, stream);
  }
  kernels::launch_gemm(launch, state_->shape(issuers()), stream);
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
  // All ranks share the multiprocessors: each gets its part, in whole clusters.
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
    state.fix_blocks(blocks);
    state.plan_for_blocks(blocks);
    launches.push_back(state.prepare(operands[rank], completion));
  }
  const kernels::GemmLaunchShape shape = first.shape(blocks);
  kernels::launch_virtual_gemm(first.upload(launches, stream), first.heap().world(), shape, stream);
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
