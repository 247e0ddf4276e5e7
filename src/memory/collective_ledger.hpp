#pragma once
// Which collective calls each rank of one process has made. Ranks take their steps at different times; the first to
// reach a step defines it, and a rank that differs is told at once, not by corrupted results later.

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace xstage::memory {

enum class StepKind { allocate, release, agree };

/// One collective call: its kind, and in words everything that must be the same on every rank.
struct CollectiveStep {
  StepKind kind;
  std::string values;
};

class CollectiveLedger {
 public:
  explicit CollectiveLedger(int world);

  /// Throws InputError if another rank took a different step in this place; changes nothing.
  void check(int rank, const CollectiveStep& step) const;
  /// Takes the step for this rank: check(), then one further.
  void advance(int rank, const CollectiveStep& step);

  /// How many steps the rank has taken.
  [[nodiscard]] std::size_t steps(int rank) const;

  /// Throws InputError naming the ranks that have taken fewer steps than `steps`.
  void check_reached(std::size_t steps) const;
  /// Throws InputError unless all ranks have taken the same number of steps.
  void check_complete() const;

 private:
  struct DefinedStep {
    CollectiveStep step;
    int rank;  // who was the first
  };
  [[nodiscard]] const DefinedStep* defined(std::size_t index) const;
  void forget_common_steps();

  std::vector<std::size_t> steps_;  // [rank]
  std::deque<DefinedStep> defined_;
  std::size_t forgotten_ = 0;  // steps in front of `defined_`, which all ranks have taken
};

}  // namespace xstage::memory
