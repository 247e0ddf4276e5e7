#include <fmt/format.h>

#include <algorithm>

#include "kernels/moe/moe_exchange_parameters.hpp"
#include "moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe {

Plan make_plan(const Problem& problem, int world, int multiprocessors) {
  return complete_plan(problem, Plan{}, world, multiprocessors);
}

Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  check_problem(problem, world);
  fields::check(plan_fields(), plan, "plan");
  // Kernels that wait for peers are resident as a whole, one CTA on a multiprocessor.
  const int most = std::min(multiprocessors, static_cast<int>(kernels::CallPad::most_blocks));
  if (plan.issuers > multiprocessors) {
    throw InputError(fmt::format("plan: issuers is {}: it must be at most the {} multiprocessors, or 0 for the rule",
                                 plan.issuers, multiprocessors));
  }
  Plan complete = plan;
  complete.issuers = plan.issuers == 0 ? most : plan.issuers;
  check_issuers(problem, complete.issuers);
  return complete;
}

void check_issuers(const Problem& problem, int issuers) {
  constexpr std::int64_t most_each = kernels::MoeExchangePad::all_sent - 1;  // of a flag
  const std::int64_t each = (problem.most_tokens + issuers - 1) / issuers;
  if (each > most_each) {
    throw InputError(fmt::format(
        "plan: {} issuers for most_tokens {}: each would have up to {} tokens, more than the {} that a flag counts",
        issuers, problem.most_tokens, each, most_each));
  }
}

}  // namespace xstage::moe
