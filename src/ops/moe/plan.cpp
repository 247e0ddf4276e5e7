#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ops/moe/device/parameters.hpp"
#include "ops/moe/exchange_plan.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe {

namespace {

constexpr std::int64_t element_bytes = 2;

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError("plan: " + message);
  }
}

/// Requires 0, since a single rank has no peer to send to or to copy from.
void require_none(const char* name, int value) {
  require(value == 0, fmt::format("{} is {}: it must be 0 for a rank alone", name, value));
}

void complete_dispatch(Plan& plan, int world) {
  using kernels::dispatch_warps;
  if (world == 1) {
    require_none("dispatch_copiers", plan.dispatch_copiers);
  }
  plan.dispatch_senders = plan.dispatch_senders == 0 ? dispatch_senders_by_rule(world) : plan.dispatch_senders;
  plan.dispatch_copiers =
      plan.dispatch_copiers == 0 ? dispatch_copiers_by_rule(world, plan.dispatch_senders) : plan.dispatch_copiers;
  if (world > 1) {
    const int senders = plan.dispatch_senders;
    const int copiers = plan.dispatch_copiers;
    require(senders + copiers < dispatch_warps,
            fmt::format("dispatch_senders + dispatch_copiers is {} + {}: it must be at most {}, since one of {} warps "
                        "tells peers",
                        senders, copiers, dispatch_warps - 1, dispatch_warps));
    require(senders * (world - 1) <= 32 * copiers,
            fmt::format("dispatch_senders is {}: {} copiers hear from at most {} senders of {} peers, one a lane",
                        senders, copiers, 32 * copiers / (world - 1), world - 1));
  }
}

void complete_combine(Plan& plan, int world, std::int64_t row_bytes) {
  const bool partial = plan.combine == Combine::partial_sums;
  if (world == 1) {
    require_none("combine_senders", plan.combine_senders);
    require_none("combine_sender_groups", plan.combine_sender_groups);
  }
  require(partial || plan.combine_sender_groups == 0,
          fmt::format("combine_sender_groups is {}: it must be 0 for combine=rows, whose senders share every token",
                      plan.combine_sender_groups));
  plan.combine_senders =
      plan.combine_senders == 0 ? combine_senders_by_rule(world, plan.combine) : plan.combine_senders;
  if (partial && world > 1 && plan.combine_sender_groups == 0) {
    plan.combine_sender_groups = combine_sender_groups_by_rule(row_bytes, plan.combine_senders);
  }
  require(plan.combine_sender_groups <= plan.combine_senders,
          fmt::format("combine_sender_groups is {}: it must be at most combine_senders, {}", plan.combine_sender_groups,
                      plan.combine_senders));
  if (plan.combine_adder_groups == 0) {
    plan.combine_adder_groups = combine_adder_groups_by_rule(row_bytes, plan.combine_senders);
  }
  const int adders = kernels::combine_adders(plan.combine_senders);
  require(plan.combine_adder_groups <= adders,
          fmt::format("combine_adder_groups is {}: it must be at most {}, the warps that add beside {} senders",
                      plan.combine_adder_groups, adders, plan.combine_senders));
}

}  // namespace

Plan make_plan(const Problem& problem, int world, int multiprocessors) {
  return complete_plan(problem, Plan{}, world, multiprocessors);
}

Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  check_problem(problem, world);
  fields::check(plan_fields(), plan, "plan");
  // Kernels that wait for peers must be resident as a whole, with one CTA on each multiprocessor.
  const int most = std::min(multiprocessors, static_cast<int>(kernels::CallPad::most_blocks));
  if (plan.issuers > multiprocessors) {
    throw InputError(fmt::format("plan: issuers is {}: it must be at most the {} multiprocessors, or 0 for the rule",
                                 plan.issuers, multiprocessors));
  }
  Plan complete = plan;
  complete.issuers = plan.issuers == 0 ? most : plan.issuers;
  check_issuers(problem, complete.issuers);
  complete_dispatch(complete, world);
  complete_combine(complete, world, element_bytes * problem.hidden);
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
