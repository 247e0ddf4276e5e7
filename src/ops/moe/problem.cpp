#include "ops/moe/problem.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "xstage/error.hpp"

namespace xstage::moe {

namespace {

constexpr std::int64_t width_unit = 64;         // the main loop's step
constexpr std::int64_t greatest_width = 16384;  // rows of 32 KiB: several must fit in a multiprocessor's shared memory
// Flags of the exchange have 21 bits for the tokens of a CTA, which suffices for this number on at least 9 CTAs.
constexpr std::int64_t greatest_most_tokens = std::int64_t{1} << 24U;
constexpr std::int64_t greatest_choices = std::int64_t{1} << 30U;  // rows are counted in 32 bits, past the end as well

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError(message);
  }
}

void check_range(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t greatest) {
  require(value >= least && value <= greatest,
          fmt::format("{} is {}: it must be between {} and {}", name, value, least, greatest));
}

void check_width(std::string_view name, std::int64_t value) {
  require(value >= width_unit && value <= greatest_width && value % width_unit == 0,
          fmt::format("{} is {}: it must be a multiple of {} between {} and {}", name, value, width_unit, width_unit,
                      greatest_width));
}

/// One choice of a token, in words.
std::string place(std::size_t index, int top_k) {
  const auto choices = static_cast<std::size_t>(top_k);
  return fmt::format("token {}, choice {}", index / choices, index % choices);
}

void check_expert(const Problem& problem, int world, std::int32_t expert, std::size_t index) {
  const int experts = all_experts(problem, world);
  // Separate from the check, since text is needed only for an invalid choice, and there are millions of choices.
  if (expert < no_expert || expert >= experts) {
    throw InputError(fmt::format("{}: expert {}: it must be between 0 and {} ({} ranks of {} experts), or -1 for none",
                                 place(index, problem.top_k), expert, experts - 1, world, problem.experts_per_rank));
  }
}

void check_weight(const Problem& problem, float weight, std::size_t index) {
  if (!std::isfinite(weight)) {
    throw InputError(fmt::format("{}: router weight {}: it must be finite", place(index, problem.top_k), weight));
  }
}

}  // namespace

void check_problem(const Problem& problem, int world) {
  require(world >= 1 && world <= max_world, fmt::format("{} ranks: 1 to {} are supported", world, max_world));
  check_width("hidden", problem.hidden);
  check_width("intermediate", problem.intermediate);
  check_range("experts_per_rank", problem.experts_per_rank, 1, most_experts_per_rank);
  check_range("top_k", problem.top_k, 1, most_top_k);
  require(problem.top_k <= all_experts(problem, world),
          fmt::format("top_k is {}: there are {} experts ({} ranks of {})", problem.top_k, all_experts(problem, world),
                      world, problem.experts_per_rank));
  check_range("most_tokens", problem.most_tokens, 1, greatest_most_tokens);
  const std::int64_t choices = problem.most_tokens * problem.top_k * world;
  require(choices <= greatest_choices,
          fmt::format("most_tokens * top_k * ranks is {} * {} * {}: it must be at most {}, since rows are counted in "
                      "32 bits",
                      problem.most_tokens, problem.top_k, world, greatest_choices));
  require(std::isfinite(problem.clamp) && problem.clamp >= 0,
          fmt::format("clamp is {}: it must be finite and above zero, or 0 for none", problem.clamp));
}

void check_tokens(const Problem& problem, std::int64_t tokens) {
  require(tokens >= 0 && tokens <= problem.most_tokens,
          fmt::format("tokens is {}: it must be between 0 and {}, which the heap is made for (most_tokens)", tokens,
                      problem.most_tokens));
}

void check_routing(const Problem& problem, int world, std::span<const std::int32_t> experts,
                   std::span<const float> router_weights) {
  check_problem(problem, world);
  require(experts.size() == router_weights.size(),
          fmt::format("{} expert ids and {} router weights: each choice has one of both", experts.size(),
                      router_weights.size()));
  const auto choices = static_cast<std::size_t>(problem.top_k);
  require(experts.size() % choices == 0,
          fmt::format("{} expert ids: they must be a multiple of top_k, {}", experts.size(), choices));
  check_tokens(problem, static_cast<std::int64_t>(experts.size() / choices));
  for (std::size_t index = 0; index < experts.size(); ++index) {
    check_expert(problem, world, experts[index], index);
    if (experts[index] != no_expert) {
      check_weight(problem, router_weights[index], index);
    }
  }
}

std::string statement(const Problem& problem, const Plan& plan) {
  std::string text = "moe";
  // Each value has its name beside it: with one long format a value without a placeholder would go unnoticed.
  const auto state = [&text](const char* name, const auto& value) { text += fmt::format(" {}={}", name, value); };
  state("hidden", problem.hidden);
  state("intermediate", problem.intermediate);
  state("experts_per_rank", problem.experts_per_rank);
  state("top_k", problem.top_k);
  state("most_tokens", problem.most_tokens);
  state("clamp", problem.clamp);
  return text + fields::statement(plan_fields(), plan);
}

double flops(const Problem& problem, std::int64_t choices) {
  constexpr double operations = 2 * 3;  // multiply and add; gate, up and Linear-2
  return operations * static_cast<double>(choices) * static_cast<double>(problem.hidden) *
         static_cast<double>(problem.intermediate);
}

}  // namespace xstage::moe
