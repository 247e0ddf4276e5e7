#pragma once
// Layout of one rank's share of a fused GEMM: the regions of its schedule in their order, the destinations of their
// tiles, and the buffers that these need. Host code, tested without a GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/gemm/device/layout.hpp"
#include "ops/gemm/schedule.hpp"
#include "xstage/gemm.hpp"

namespace xstage::gemm {

/// A matrix, or rows of one, in elements.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The memory to which an output tensor map points.
enum class Place {
  slot,       // slot of this rank's partial sums at the owner
  symmetric,  // output buffer `part` in the symmetric heap
};

struct OutputTarget {
  Place place = Place::slot;
  int rank = 0;
  int part = 0;
  std::int64_t row_begin = 0;  // rows of the destination before the first one that is written
  MatrixShape shape;           // what may be written: stores beyond it are clipped
  std::int64_t column_begin = 0;
  std::int64_t pitch = 0;  // columns from one row to the next; 0: those of the shape
};

/// Rows of the caller's own matrix that one region writes.
struct LocalOutput {
  std::int64_t row_begin = 0;
  MatrixShape shape;
};

struct Layout {
  // Operands of this rank.
  MatrixShape a;
  MatrixShape b;
  MatrixShape gathered;                 // all-gather: the whole A, in the heap
  MatrixShape slots;                    // partial sums of the other ranks, one slot after the other, in the heap
  std::int64_t slot_element_bytes = 2;  // partial sums in bf16 or fp32
  std::int64_t slot_rows = 0;
  std::int64_t slot_columns = 0;  // of this rank's slots; `slots` is as large on every rank
  std::vector<MatrixShape> symmetric_outputs;
  MatrixShape user_output;

  schedule::GemmSchedule schedule{};
  std::vector<kernels::GemmRegionTarget> targets;
  std::vector<OutputTarget> outputs;       // outputs in the heap
  std::vector<LocalOutput> local_outputs;  // outputs in the caller's own matrix
  kernels::GatherParameters gather{};
  std::int64_t exchange_bytes = 0;  // bytes of the slots of an exchange through registers
  std::int64_t exchange_half_tiles = 0;
  std::int64_t tile_flags = 0;  // words of the signal pad
  // For all_to_all: number of half-tile flags of one source rank, and the first flag of each part; part 0 comes first.
  std::int64_t source_flags = 0;
  std::vector<std::int64_t> part_flags;
  bool transforms = false;  // bias, activation, gate or steps on heads between sum and store
  bool plain = false;       // neither those nor partial sums of peers
  bool waits_done = false;

  /// Whether output `index` belongs to a region that stores to peers.
  [[nodiscard]] bool targets_remote(std::size_t index) const;
};

/// Upper bound of CTAs: each has an epoch in the signal pad.
inline constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

/// Every field of a plan, in the order of its members.
[[nodiscard]] fields::Table<Plan> plan_fields();

/// The plan with every field that was left to the rule filled in.
[[nodiscard]] Plan complete_plan(const Problem& problem, Plan plan, int world, int multiprocessors);

/// A complete plan for fewer CTAs than `issuers`: as a CTA may then have several tiles, staging gets its own memory.
[[nodiscard]] Plan with_own_staging(const Problem& problem, Plan plan, int world);

[[nodiscard]] Layout make_layout(const Problem& problem, const Plan& plan, int rank, int world);

/// Offsets in the shared memory of one CTA, in bytes; ops/gemm/device/context.cuh has a diagram.
struct SharedLayout {
  std::int64_t stage_bytes = 0;
  std::int64_t a_half_bytes = 0;   // in a stage: from rows 0 - 63 of A to rows 64 - 127
  std::int64_t a_block_bytes = 0;  // from one k-block of A to the next
  std::int64_t b_offset = 0;       // of B
  std::int64_t staging_offset = 0;
  std::int64_t push_offset = 0;
  std::int64_t barriers_offset = 0;
  std::int64_t bytes = 0;
};

/// Offsets for a plan whose `stages`, `stage_blocks`, `staging_chunks` and `staging_over_ring` are filled in.
[[nodiscard]] SharedLayout shared_layout(const Problem& problem, const Plan& plan, int world);

/// Number of warpgroups that multiply, each 64 rows of a tile: one if no rank has more rows than that, else two; always
/// two in an all-gather.
[[nodiscard]] int multiplying_warpgroups(const Problem& problem, int world);

/// Rows of A that one TMA load of a CTA takes, 8 to 128.
[[nodiscard]] int rows_of_a_load(const Problem& problem, const Plan& plan, int world);

/// One line that all ranks must agree on.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

[[nodiscard]] std::string operation_name(Operation operation);

inline constexpr std::int64_t shared_memory_limit = kernels::shared_memory_bytes;

}  // namespace xstage::gemm
