#include "ops/all_to_all/problem.hpp"

#include <fmt/format.h>

#include "fabric/call_parameters.hpp"
#include "xstage/error.hpp"
#include "xstage/row_range.hpp"

namespace xstage::all_to_all {

namespace {

constexpr std::int64_t greatest_extent = std::int64_t{1} << 30U;  // chunks are counted in 32 bits, past the end as well
constexpr int greatest_head_dim = 1024;                           // a chunk holds whole heads

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError(message);
  }
}

void check_extent(const char* name, std::int64_t value) {
  require(value >= 1 && value <= greatest_extent,
          fmt::format("{} is {}: it must be between 1 and {}", name, value, greatest_extent));
}

void check_heads(const Problem& problem, int world) {
  require(problem.heads >= 1, fmt::format("heads is {}: it must be at least 1", problem.heads));
  require(
      problem.heads % world == 0,
      fmt::format("heads is {}: it must be a multiple of the {} ranks, which share the heads", problem.heads, world));
  require(problem.head_dim >= 8 && problem.head_dim <= greatest_head_dim && problem.head_dim % 8 == 0,
          fmt::format("head_dim is {}: it must be a multiple of 8 between 8 and {} (bulk copies have multiples of 16 "
                      "bytes)",
                      problem.head_dim, greatest_head_dim));
}

/// No rank has more chunks than rows of one head.
void check_product(const Problem& problem, int world) {
  const std::int64_t lines = problem.sequences * (problem.heads / world);
  require(lines <= greatest_extent / problem.rows,
          fmt::format("sequences * rows * heads of a rank is {} * {} * {}: it must be at most {}, since chunks are "
                      "counted in 32 bits",
                      problem.sequences, problem.rows, problem.heads / world, greatest_extent));
}

std::size_t padded(std::size_t bytes) {
  constexpr std::size_t alignment = HeapRank::default_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

void check_problem(const Problem& problem, int world) {
  require(world >= 1 && world <= max_world, fmt::format("{} ranks: 1 to {} are supported", world, max_world));
  check_extent("sequences", problem.sequences);
  check_extent("rows", problem.rows);
  check_heads(problem, world);
  check_product(problem, world);
}

std::string statement(const Problem& problem, const Plan& plan) {
  std::string text = "all_to_all";
  // Each value has its name beside it: with one long format a value without a placeholder would go unnoticed.
  const auto state = [&text](const char* name, const auto& value) { text += fmt::format(" {}={}", name, value); };
  state("sequences", problem.sequences);
  state("rows", problem.rows);
  state("heads", problem.heads);
  state("head_dim", problem.head_dim);
  return text + fields::statement(plan_fields(), plan);
}

std::size_t result_bytes(const Problem& problem, int rank, int world) {
  const std::int64_t rows = problem.sequences * row_range(problem.rows, rank, world).count;
  return static_cast<std::size_t>(rows * problem.heads * problem.head_dim * element_bytes);
}

std::size_t heap_bytes(const Problem& problem, int world) {
  check_problem(problem, world);
  const std::size_t pad = kernels::CallPad::arrivals * sizeof(std::uint32_t);
  return padded(pad) + padded(result_bytes(problem, 0, world));  // no rank owns more rows than the first
}

std::int64_t remote_bytes(const Problem& problem, int world) {
  check_problem(problem, world);
  const std::int64_t own = row_range(problem.rows, world - 1, world).count;
  return problem.sequences * (problem.rows - own) * (problem.heads / world) * problem.head_dim * element_bytes;
}

}  // namespace xstage::all_to_all
