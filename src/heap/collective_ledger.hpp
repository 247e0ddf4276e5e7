#pragma once
// Which collective calls each rank of one process has made. Ranks take their steps at different times; the first to
// reach a step defines it, and a rank that differs is told at once, not by corrupted results later. What depends on the
// time at which a step is taken, the first rank decides for all: ranks of several processes would exchange that.

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace xstage::memory {

enum class StepKind { allocate, agree };

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
  /// What the rank that was first at this rank's next step has decided there for all: buffers that are given back. Null
  /// where this rank is the first, and decides.
  [[nodiscard]] const std::vector<std::size_t>* decision(int rank) const;
  /// Takes the step for this rank: check(), then one further. `decided`: of the first rank; those of others are
  /// ignored.
  void advance(int rank, const CollectiveStep& step, std::vector<std::size_t> decided = {});

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
    std::vector<std::size_t> decided;
  };
  [[nodiscard]] const DefinedStep* defined(std::size_t index) const;
  void forget_common_steps();

  std::vector<std::size_t> steps_;  // [rank]
  std::deque<DefinedStep> defined_;
  std::size_t forgotten_ = 0;  // steps in front of `defined_`, which all ranks have taken
};

}  // namespace xstage::memory
