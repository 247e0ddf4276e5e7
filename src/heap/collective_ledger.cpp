#include "heap/collective_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "xstage/error.hpp"

namespace xstage::memory {
namespace {

constexpr std::string_view rule = "every rank must make the same calls in the same order";

std::string_view present_tense(StepKind kind) { return kind == StepKind::allocate ? "allocates" : "states"; }
std::string_view past_tense(StepKind kind) { return kind == StepKind::allocate ? "allocated" : "stated"; }

std::string ordinal(std::size_t number) {
  const bool teen = number % 100 >= 11 && number % 100 <= 13;
  const std::size_t digit = teen ? 0 : number % 10;
  return fmt::format("{}{}", number, digit == 1 ? "st" : digit == 2 ? "nd" : digit == 3 ? "rd" : "th");
}

}  // namespace

CollectiveLedger::CollectiveLedger(int world) : steps_(static_cast<std::size_t>(world), 0) {}

const CollectiveLedger::DefinedStep* CollectiveLedger::defined(std::size_t index) const {
  return index - forgotten_ < defined_.size() ? &defined_[index - forgotten_] : nullptr;
}

void CollectiveLedger::check(int rank, const CollectiveStep& step) const {
  const std::size_t index = steps(rank);
  const DefinedStep* first = defined(index);
  if (first == nullptr || (first->step.kind == step.kind && first->step.values == step.values)) {
    return;
  }
  throw InputError(fmt::format("rank {} {} {} as its {} step, rank {} {} {}: {}", rank, present_tense(step.kind),
                               step.values, ordinal(index + 1), first->rank, past_tense(first->step.kind),
                               first->step.values, rule));
}

const std::vector<std::size_t>* CollectiveLedger::decision(int rank) const {
  const DefinedStep* first = defined(steps(rank));
  return first == nullptr ? nullptr : &first->decided;
}

void CollectiveLedger::advance(int rank, const CollectiveStep& step, std::vector<std::size_t> decided) {
  check(rank, step);
  if (defined(steps(rank)) == nullptr) {
    defined_.push_back({step, rank, std::move(decided)});
  }
  ++steps_[static_cast<std::size_t>(rank)];
  forget_common_steps();
}

/// Forgets steps that all ranks have taken, so that a long-lived heap does not grow.
void CollectiveLedger::forget_common_steps() {
  const std::size_t common = *std::min_element(steps_.begin(), steps_.end());
  while (forgotten_ < common) {
    defined_.pop_front();
    ++forgotten_;
  }
}

std::size_t CollectiveLedger::steps(int rank) const { return steps_[static_cast<std::size_t>(rank)]; }

void CollectiveLedger::check_reached(std::size_t steps) const {
  const auto last = std::min_element(steps_.begin(), steps_.end());
  if (*last >= steps) {
    return;
  }
  std::string behind;
  for (std::size_t rank = 0; rank < steps_.size(); ++rank) {
    if (steps_[rank] < steps) {
      behind += fmt::format("{}rank {} has made {} of {} collective calls", behind.empty() ? "" : ", ", rank,
                            steps_[rank], steps);
    }
  }
  std::string missing;
  if (const DefinedStep* next = defined(*last); next != nullptr) {
    missing = fmt::format("; rank {} lacks its {} step, where rank {} {} {}", last - steps_.begin(), ordinal(*last + 1),
                          next->rank, past_tense(next->step.kind), next->step.values);
  }
  throw InputError(fmt::format("{}{}: {}, before the first launch", behind, missing, rule));
}

void CollectiveLedger::check_complete() const { check_reached(*std::max_element(steps_.begin(), steps_.end())); }

}  // namespace xstage::memory
