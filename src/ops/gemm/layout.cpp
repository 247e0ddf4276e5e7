#include "ops/gemm/layout.hpp"
#include "fabric/call_parameters.hpp"

#include <algorithm>

namespace xstage::gemm {

namespace {

using kernels::GemmRegionTarget;

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Number of half-tile flags of one source: two for each tile of `rows` x `columns`.
std::int64_t half_tiles(std::int64_t rows, std::int64_t columns, const Plan& plan) {
  return divide_up(rows, kernels::gemm_tile_rows) * 2 * divide_up(columns, plan.tile_columns);
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Problem& problem, const Plan& plan, int rank, int world)
      : problem_(problem), plan_(plan), rank_(rank), world_(world) {
    layout_.schedule.start(
        {kernels::gemm_tile_rows, plan.tile_columns, plan.cluster_rows, plan.cluster_columns, plan.group_rows});
  }

  Layout build() {
    switch (problem_.operation) {
      case Operation::gemm:
        gemm();
        break;
      case Operation::reduce_scatter:
        reduce_scatter();
        break;
      case Operation::all_reduce:
        if (plan_.all_reduce == AllReduceAlgorithm::one_shot && world_ > 1) {
          exchange();
        } else {
          all_reduce();
        }
        break;
      case Operation::all_gather:
        all_gather();
        break;
      case Operation::all_to_all:
        all_to_all();
        break;
    }
    layout_.transforms = problem_.bias || problem_.gated || problem_.activation != Activation::none;
    bool reduces = false;
    for (const GemmRegionTarget& target : layout_.targets) {
      layout_.transforms = layout_.transforms || target.head_steps != 0;
      reduces = reduces || target.reduce != 0 || target.exchange != 0;
    }
    layout_.plain = !layout_.transforms && !reduces;
    return std::move(layout_);
  }

 private:
  [[nodiscard]] std::int64_t output_columns(std::int64_t columns) const {
    return problem_.gated ? columns / 2 : columns;
  }

  [[nodiscard]] RowRange rows_of(int rank) const { return row_range(problem_.m, rank, world_); }

  /// Ranks after this one, in rotation; this rank itself comes last.
  [[nodiscard]] int peer(int step) const { return (rank_ + step) % world_; }

  static GemmRegionTarget plain_target() {
    GemmRegionTarget target{};
    target.output_copies = 1;
    target.signal_rank = -1;
    target.gather_rank = -1;
    return target;
  }

  void add(std::int64_t rows, std::int64_t columns, GemmRegionTarget target, std::vector<OutputTarget> outputs) {
    target.output_map = narrow(static_cast<std::int64_t>(layout_.outputs.size()));
    target.output_copies = narrow(static_cast<std::int64_t>(outputs.size()));
    for (const OutputTarget& output : outputs) {
      target.remote |= output.rank == rank_ ? 0 : 1;
    }
    layout_.schedule.add_region(narrow(rows), narrow(columns));
    layout_.targets.push_back(target);
    layout_.outputs.insert(layout_.outputs.end(), outputs.begin(), outputs.end());
  }

  /// Adds a region of the caller's own matrix, `row_begin` rows below its first.
  void add_user_region(std::int64_t rows, std::int64_t columns, GemmRegionTarget target, std::int64_t row_begin) {
    target.local_output = 1;
    target.output_map = narrow(static_cast<std::int64_t>(layout_.local_outputs.size()));
    target.output_copies = 1;
    layout_.local_outputs.push_back({row_begin, {rows, output_columns(columns)}});
    layout_.schedule.add_region(narrow(rows), narrow(columns));
    layout_.targets.push_back(target);
  }

  void gemm() {
    const std::int64_t columns = output_columns(problem_.n);
    layout_.a = {problem_.m, problem_.k};
    layout_.b = {problem_.n, problem_.k};
    layout_.user_output = {problem_.m, columns};
    add_user_region(problem_.m, problem_.n, plain_target(), 0);
  }

  /// Tiles that peers own come first, rotated by rank; each partial tile goes into the owner's slot for this rank. Own
  /// tiles come last.
  void reduce_scatter() {
    share_depth();
    const std::int64_t most_rows = rows_of(0).count;
    layout_.slot_rows = most_rows;
    layout_.slots = {most_rows * (world_ - 1), problem_.n};
    layout_.slot_columns = problem_.n;
    layout_.tile_flags = half_tiles(most_rows, problem_.n, plan_) * world_;
    for (int step = 1; step < world_; ++step) {
      const RowRange rows = rows_of(peer(step));
      GemmRegionTarget target = plain_target();
      target.a_row_begin = narrow(rows.begin);
      add_partial_region(peer(step), target, {rows.count, problem_.n});
    }
    const RowRange own = rows_of(rank_);
    GemmRegionTarget target = plain_target();
    target.a_row_begin = narrow(own.begin);
    target.reduce = world_ > 1 ? 1 : 0;
    target.wide = problem_.fp32_partials ? 1 : 0;
    layout_.user_output = {own.count, problem_.n};
    add_user_region(own.count, problem_.n, target, 0);
  }

  /// As reduce_scatter, with blocks of columns in place of rows, so that few rows do not make every rank read each
  /// weight twice. The owner sends its sums to all ranks.
  void all_reduce() {
    share_depth();
    const ColumnRange own = columns_of(rank_);
    layout_.slot_rows = problem_.m;
    layout_.slots = {problem_.m * (world_ - 1), columns_of(0).count};
    layout_.slot_columns = own.count;
    layout_.tile_flags = half_tiles(problem_.m, columns_of(0).count, plan_) * world_;
    for (int step = 1; step < world_; ++step) {
      const ColumnRange columns = columns_of(peer(step));
      GemmRegionTarget target = plain_target();
      target.b_row_begin = narrow(columns.begin);
      add_partial_region(peer(step), target, {problem_.m, columns.count});
    }
    std::vector<OutputTarget> everywhere;
    for (int step = 1; step <= world_; ++step) {
      everywhere.push_back({Place::symmetric, peer(step), 0, 0, {problem_.m, own.count}, own.begin, problem_.n});
    }
    layout_.symmetric_outputs = {{problem_.m, problem_.n}};
    layout_.waits_done = world_ > 1;
    GemmRegionTarget target = plain_target();
    target.b_row_begin = narrow(own.begin);
    target.reduce = world_ > 1 ? 1 : 0;
    target.wide = problem_.fp32_partials ? 1 : 0;
    add(problem_.m, own.count, target, everywhere);
  }

  void share_depth() {
    layout_.slot_element_bytes = problem_.fp32_partials ? 4 : 2;
    layout_.a = {problem_.m, problem_.k / world_};
    layout_.b = {problem_.n, problem_.k / world_};
  }

  struct ColumnRange {
    std::int64_t begin;
    std::int64_t count;
  };

  /// Columns that a rank owns, in units of 8 as TMA requires.
  [[nodiscard]] ColumnRange columns_of(int rank) const {
    const RowRange units = row_range(problem_.n / 8, rank, world_);
    return {units.begin * 8, units.count * 8};
  }

  /// Every rank computes the partial sums of every tile, sends them to all peers from registers, and adds up what the
  /// peers sent.
  void exchange() {
    share_depth();
    layout_.symmetric_outputs = {{problem_.m, problem_.n}};
    GemmRegionTarget target = plain_target();
    target.exchange = 1;
    add(problem_.m, problem_.n, target, {{Place::symmetric, rank_, 0, 0, {problem_.m, problem_.n}}});
    constexpr std::int64_t half_tile_rows = kernels::gemm_tile_rows / 2;
    layout_.exchange_half_tiles = half_tiles(problem_.m, problem_.n, plan_);
    // Two sets of slots, bf16.
    layout_.exchange_bytes =
        std::int64_t{2} * world_ * layout_.exchange_half_tiles * half_tile_rows * plan_.tile_columns * 2;
  }

  void add_partial_region(int owner, GemmRegionTarget target, const MatrixShape& shape) {
    target.raw = 1;
    target.wide = problem_.fp32_partials ? 1 : 0;
    target.signal_rank = owner;
    target.signal_begin = static_cast<std::uint32_t>(half_tiles(shape.rows, shape.columns, plan_) * rank_);
    const int slot = rank_ < owner ? rank_ : rank_ - 1;
    add(shape.rows, shape.columns, target, {{Place::slot, owner, 0, slot * layout_.slot_rows, shape}});
  }

  /// Local rows come first, then those of the peers in the order in which they push: each rank pushes to its successor
  /// first.
  void all_gather() {
    const std::int64_t columns = problem_.n / world_;
    const RowRange own = rows_of(rank_);
    layout_.a = {own.count, problem_.k};
    layout_.b = {columns, problem_.k};
    layout_.user_output = {problem_.m, output_columns(columns)};
    if (world_ > 1) {
      layout_.gathered = {problem_.m, problem_.k};
      kernels::GatherParameters& gather = layout_.gather;
      gather.chunk_rows = plan_.chunk_rows;
      gather.chunk_depth = plan_.chunk_depth;
      gather.row_chunks = narrow(divide_up(rows_of(0).count, plan_.chunk_rows));
      gather.depth_chunks = narrow(divide_up(problem_.k, plan_.chunk_depth));
      gather.push = plan_.gather == GatherPath::push ? 1 : 0;
      gather.push_warps = plan_.push_warps;
      gather.buffers = gather.push == 1 ? 2 : 1;
      layout_.tile_flags = std::int64_t{gather.row_chunks} * gather.depth_chunks * world_;
    }
    for (int step = 0; step < world_; ++step) {
      const int source = (rank_ + world_ - step) % world_;
      const RowRange rows = rows_of(source);
      GemmRegionTarget target = plain_target();
      target.a_map = step == 0 ? 0 : 1;
      target.a_row_begin = step == 0 ? 0 : narrow(rows.begin);
      target.gather_rank = step == 0 ? -1 : source;
      add_user_region(rows.count, columns, target, rows.begin);
    }
  }

  /// Column blocks of the peers' heads come first, rotated by rank. This rank's heads come last, since their stores
  /// need no link.
  void all_to_all() {
    const RowRange own = rows_of(rank_);
    layout_.a = {own.count, problem_.k};
    layout_.b = {problem_.n, problem_.k};
    for (const HeadPart& part : problem_.parts) {
      layout_.symmetric_outputs.push_back({problem_.m, std::int64_t{part.heads} / world_ * problem_.head_dim});
    }
    for (const MatrixShape& output : layout_.symmetric_outputs) {
      layout_.part_flags.push_back(layout_.source_flags);
      layout_.source_flags += half_tiles(rows_of(0).count, output.columns, plan_);
    }
    layout_.tile_flags = layout_.source_flags * world_;
    layout_.waits_done = world_ > 1;
    for (int step = 1; step <= world_; ++step) {
      add_head_regions(peer(step), layout_.source_flags * rank_);
    }
  }

  void add_head_regions(int destination, std::int64_t first_flag) {
    const RowRange own = rows_of(rank_);
    std::int64_t part_begin = 0;
    int norm_row = 0;
    for (std::size_t index = 0; index < problem_.parts.size(); ++index) {
      const HeadPart& part = problem_.parts[index];
      const std::int64_t columns = layout_.symmetric_outputs[index].columns;
      GemmRegionTarget target = plain_target();
      target.b_row_begin = narrow(part_begin + destination * columns);
      target.signal_rank = destination;
      target.signal_begin = static_cast<std::uint32_t>(first_flag + layout_.part_flags[index]);
      target.head_steps = (part.norm ? 1 : 0) + (part.rotary ? 2 : 0);
      target.norm_row = norm_row;
      add(own.count, columns, target,
          {{Place::symmetric, destination, static_cast<int>(index), own.begin, {own.count, columns}}});
      part_begin += std::int64_t{part.heads} * problem_.head_dim;
      norm_row += part.norm ? 1 : 0;
    }
  }

  const Problem& problem_;
  const Plan& plan_;
  const int rank_;
  const int world_;
  Layout layout_;
};

}  // namespace

bool Layout::targets_remote(std::size_t index) const {
  for (const GemmRegionTarget& target : targets) {
    const auto first = static_cast<std::size_t>(target.output_map);
    if (target.local_output == 0 && index >= first && index < first + static_cast<std::size_t>(target.output_copies)) {
      return target.remote != 0;
    }
  }
  return false;
}

Layout make_layout(const Problem& problem, const Plan& plan, int rank, int world) {
  return LayoutBuilder(problem, plan, rank, world).build();
}

/// A number of multiprocessors for the rule that fills in a plan; sizes in the heap do not depend on it.
constexpr int multiprocessors_for_sizes = 132;

std::size_t heap_bytes(const Problem& problem, const Plan& plan, int world) {
  constexpr std::size_t alignment = HeapRank::default_alignment;
  const auto padded = [](std::int64_t bytes) {
    return (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
  };
  check_problem(problem, world);
  const Layout layout = make_layout(problem, complete_plan(problem, plan, world, multiprocessors_for_sizes), 0, world);
  std::size_t bytes = padded((kernels::CallPad::arrivals + layout.tile_flags) * 4);
  bytes += padded(layout.slots.rows * layout.slots.columns * layout.slot_element_bytes);
  bytes += padded(layout.exchange_bytes);
  for (int buffer = 0; buffer < layout.gather.buffers; ++buffer) {
    bytes += padded(layout.gathered.rows * layout.gathered.columns * 2);
  }
  for (const MatrixShape& output : layout.symmetric_outputs) {
    bytes += padded(output.rows * output.columns * 2);
  }
  return bytes;
}

}  // namespace xstage::gemm
