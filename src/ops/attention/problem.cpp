#include "ops/attention/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "xstage/error.hpp"

namespace xstage::attention {

namespace {

constexpr std::int64_t greatest_extent = std::int64_t{1} << 30U;  // kernels count in 32 bits, past the end as well
constexpr std::int64_t row_count_limit = std::int64_t{1} << 31U;  // of rows that have a 32-bit number

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError(message);
  }
}

void check_extent(std::string_view name, std::int64_t value) {
  require(value >= 1 && value <= greatest_extent,
          fmt::format("{} is {}: it must be between 1 and {}", name, value, greatest_extent));
}

void check_heads(const Problem& problem, int world) {
  const auto check = [world](std::string_view name, int heads) {
    require(heads >= 1, fmt::format("{} is {}: it must be at least 1", name, heads));
    require(heads % world == 0,
            fmt::format("{} is {}: it must be a multiple of the {} ranks, which share the heads", name, heads, world));
  };
  check("heads", problem.heads);
  check("kv_heads", problem.kv_heads);
  require(problem.heads % problem.kv_heads == 0,
          fmt::format("heads is {}, kv_heads is {}: heads must be a multiple of kv_heads, as each head of keys and "
                      "values serves as many heads of queries",
                      problem.heads, problem.kv_heads));
  require(problem.head_dim == 64 || problem.head_dim == 128,
          fmt::format("head_dim is {}: it must be 64 or 128", problem.head_dim));
}

/// Rows (of head_dim elements) in the largest result that a rank holds.
std::int64_t rows_of_result(const Problem& problem, int world) {
  switch (problem.destination) {
    case Destination::local:
      return problem.sequences * problem.rows * (problem.heads / world);
    case Destination::to_owners:
      return problem.sequences * row_range(problem.rows, 0, world).count * problem.heads;
    case Destination::twin:
      break;
  }
  return problem.sequences * problem.rows * problem.heads;
}

/// These rules keep the number of tiles, of arrival counters and of values of log_sum_exp within 32 bits, because a
/// rank has at most sequences * heads lines of tiles, and no result has fewer rows than a rank computes.
void check_products(const Problem& problem, int world) {
  const std::int64_t lines = problem.sequences * problem.heads;
  require(lines <= greatest_extent,
          fmt::format("sequences * heads is {}: it must be at most {}, since tiles are counted in 32 bits", lines,
                      greatest_extent));
  const auto check = [](std::string_view of, std::int64_t rows) {
    require(rows < row_count_limit, fmt::format("{} have {} rows of one head on a rank: there must be fewer than {}, "
                                                "since they are counted in 32 bits",
                                                of, rows, row_count_limit));
  };
  check("results", rows_of_result(problem, world));
  check("keys and values", problem.sequences * problem.keys * (problem.kv_heads / world));
}

std::string_view name_of(Element element) { return element == Element::bf16 ? "bf16" : "fp16"; }

std::string_view name_of(Destination destination) {
  switch (destination) {
    case Destination::local:
      return "local";
    case Destination::to_owners:
      return "to_owners";
    case Destination::twin:
      break;
  }
  return "twin";
}

}  // namespace

void check_problem(const Problem& problem, int world) {
  require(world >= 1 && world <= max_world, fmt::format("{} ranks: 1 to {} are supported", world, max_world));
  check_extent("sequences", problem.sequences);
  check_extent("rows", problem.rows);
  check_extent("keys", problem.keys);
  check_heads(problem, world);
  require(!problem.causal || problem.keys == problem.rows,
          fmt::format("causal: keys is {}, rows is {}: both must be equal, as row i sees keys 0 to i", problem.keys,
                      problem.rows));
  require(std::isfinite(problem.scale) && problem.scale >= 0,
          fmt::format("scale is {}: it must be finite and positive, or 0 for 1 / sqrt(head_dim)", problem.scale));
  check_products(problem, world);
}

void check_arrivals(const Problem& problem, int world, const InputArrivals& arrivals) {
  require(problem.destination == Destination::to_owners && problem.sequences == 1 && problem.keys == problem.rows,
          fmt::format("arrivals: the destination is {}, {} sequences, {} rows, {} keys: operands that arrive tile by "
                      "tile need to_owners and one sequence with as many keys as rows",
                      name_of(problem.destination), problem.sequences, problem.rows, problem.keys));
  const std::int64_t rows_each = row_range(problem.rows, 0, world).count;
  for (const auto& [name, part] : {std::pair<std::string_view, const TileArrivals&>{"query", arrivals.query},
                                   {"key", arrivals.key},
                                   {"value", arrivals.value}}) {
    require(part.flags != nullptr && part.next_call != nullptr,
            fmt::format("arrivals: {} has no flags: take Gemm::arrivals of its part", name));
    require(part.source_rows == rows_each,
            fmt::format("arrivals: {} has {} rows from each rank: with {} rows of {} ranks it must be {}", name,
                        part.source_rows, problem.rows, world, rows_each));
    const std::int64_t columns =
        std::int64_t{name == "query" ? problem.heads : problem.kv_heads} / world * problem.head_dim;
    require(part.tile_columns >= problem.head_dim,
            fmt::format("arrivals: {} comes in tiles of {} columns: they must hold heads of {}", name,
                        part.tile_columns, problem.head_dim));
    require(std::int64_t{part.column_tiles} == (columns + part.tile_columns - 1) / part.tile_columns,
            fmt::format("arrivals: {} has {} tiles of {} columns: its {} columns need another number", name,
                        part.column_tiles, part.tile_columns, columns));
    require(part.next_call == arrivals.query.next_call && part.tile_columns == arrivals.query.tile_columns &&
                part.source_flags == arrivals.query.source_flags,
            fmt::format("arrivals: {} and query belong to different launches: one Gemm must bring all three", name));
  }
}

double flops(const Problem& problem) {
  const double scores = static_cast<double>(problem.sequences) * problem.heads * static_cast<double>(problem.rows) *
                        static_cast<double>(problem.keys);
  return (problem.causal ? 0.5 : 1.0) * 2 * 2 * scores * problem.head_dim;
}

std::string statement(const Problem& problem, const Plan& plan) {
  std::string text = "attention";
  // Each value has its name beside it: with one long format a value without a placeholder would go unnoticed.
  const auto state = [&text](std::string_view name, const auto& value) { text += fmt::format(" {}={}", name, value); };
  state("sequences", problem.sequences);
  state("rows", problem.rows);
  state("keys", problem.keys);
  state("heads", problem.heads);
  state("kv_heads", problem.kv_heads);
  state("head_dim", problem.head_dim);
  state("causal", problem.causal);
  state("element", name_of(problem.element));
  state("scale", problem.scale);
  state("destination", name_of(problem.destination));
  return text + fields::statement(plan_fields(), plan);
}

}  // namespace xstage::attention
