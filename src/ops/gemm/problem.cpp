#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"

namespace xstage::gemm {

namespace {

constexpr std::int64_t greatest_extent = std::int64_t{1} << 30U;  // tile coordinates are 32-bit

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError(message);
  }
}

void check_extent(const char* name, std::int64_t value) {
  require(value >= 1 && value <= greatest_extent,
          fmt::format("{} is {}: it must be between 1 and {}", name, value, greatest_extent));
}

void check_multiple(const char* what, std::int64_t value, std::int64_t of, const std::string& why) {
  require(value % of == 0, fmt::format("{} is {}: it must be a multiple of {} ({})", what, value, of, why));
}

void check_heads(const Problem& problem, int world) {
  require(problem.head_dim == 64 || problem.head_dim == 128,
          fmt::format("head_dim is {}: it must be 64 or 128", problem.head_dim));
  const std::size_t most = schedule::max_regions / 8;
  require(!problem.parts.empty() && problem.parts.size() <= most,
          fmt::format("gemm_all_to_all has {} parts: it takes 1 to {}", problem.parts.size(), most));
  std::int64_t columns = 0;
  for (std::size_t part = 0; part < problem.parts.size(); ++part) {
    const int heads = problem.parts[part].heads;
    require(heads >= 1, fmt::format("part {} has {} heads: it must have at least 1", part, heads));
    require(heads % world == 0,
            fmt::format("part {} has {} heads: they must be divisible by the {} ranks", part, heads, world));
    columns += std::int64_t{heads} * problem.head_dim;
  }
  require(
      columns == problem.n,
      fmt::format("the heads of all parts have {} columns together, n is {}: both must be equal", columns, problem.n));
}

void check_partials(const Problem& problem, int world) {
  require(problem.operation != Operation::all_reduce || problem.m * (world - 1) <= 2 * greatest_extent - 256,
          fmt::format("m is {} on {} ranks: m * (ranks - 1) must be at most {}, since slots have 32-bit rows",
                      problem.m, world, 2 * greatest_extent - 256));
  require(!problem.fp32_partials || problem.operation == Operation::reduce_scatter ||
              problem.operation == Operation::all_reduce,
          fmt::format("{} has no partial sums: fp32_partials is for gemm_reduce_scatter and gemm_all_reduce",
                      operation_name(problem.operation)));
}

void check_epilogue(const Problem& problem) {
  if (!problem.gated) {
    return;
  }
  require(
      problem.operation == Operation::gemm || problem.operation == Operation::all_gather,
      fmt::format("{} has no gated epilogue: the gate is not linear, so it cannot stand before a sum or an exchange",
                  operation_name(problem.operation)));
}

}  // namespace

std::string operation_name(Operation operation) {
  switch (operation) {
    case Operation::gemm:
      return "gemm";
    case Operation::reduce_scatter:
      return "gemm_reduce_scatter";
    case Operation::all_gather:
      return "all_gather_gemm";
    case Operation::all_reduce:
      return "gemm_all_reduce";
    case Operation::all_to_all:
      return "gemm_all_to_all";
  }
  return "unknown";
}

void check_problem(const Problem& problem, int world) {
  require(world >= 1 && world <= max_world, fmt::format("{} ranks: 1 to {} are supported", world, max_world));
  check_extent("m", problem.m);
  check_extent("n", problem.n);
  check_extent("k", problem.k);
  check_epilogue(problem);
  check_partials(problem, world);
  const std::string pitch = "the copy engine of the GPU wants rows of a multiple of 16 bytes";
  const std::int64_t columns_divisor = problem.gated ? 16 : 8;
  switch (problem.operation) {
    case Operation::gemm:
      check_multiple("k", problem.k, 8, pitch);
      check_multiple("n", problem.n, columns_divisor, pitch);
      break;
    case Operation::reduce_scatter:
    case Operation::all_reduce:
      check_multiple("k", problem.k, 8 * world, fmt::format("{} ranks share it; {}", world, pitch));
      check_multiple("n", problem.n, 8, pitch);
      break;
    case Operation::all_gather:
      check_multiple("k", problem.k, 8, pitch);
      check_multiple("n", problem.n, columns_divisor * world, fmt::format("{} ranks share it; {}", world, pitch));
      break;
    case Operation::all_to_all:
      check_multiple("k", problem.k, 8, pitch);
      check_heads(problem, world);
      break;
  }
}

std::string statement(const Problem& problem, const Plan& plan) {
  std::string text = operation_name(problem.operation);
  // Each value has its name beside it: with one long format a value without a placeholder would go unnoticed.
  const auto state = [&text](const char* name, const auto& value) { text += fmt::format(" {}={}", name, value); };
  state("m", problem.m);
  state("n", problem.n);
  state("k", problem.k);
  state("bias", problem.bias);
  state("activation", static_cast<int>(problem.activation));
  state("gated", problem.gated);
  state("fp32_partials", problem.fp32_partials);
  if (!problem.parts.empty()) {
    text += fmt::format(" head_dim={} norm_epsilon={}", problem.head_dim, problem.norm_epsilon);
  }
  for (const HeadPart& part : problem.parts) {
    text += fmt::format(" heads={}/{}/{}", part.heads, part.norm, part.rotary);
  }
  return text + fields::statement(plan_fields(), plan);
}

}  // namespace xstage::gemm
