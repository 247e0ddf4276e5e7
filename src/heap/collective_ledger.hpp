#pragma once
// Which collective calls each rank of one process has made. Ranks take their steps at different times. The first rank
// to reach a step defines it, and a rank that differs gets an error at once instead of corrupted results later.
// Decisions that depend on the time of a step are made by its first rank for all ranks; ranks in several processes
// would exchange them.

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
  /// The decision that the first rank of this rank's next step made for all ranks: which buffers return to the
  /// allocators. Null if this rank is the first, which decides.
  [[nodiscard]] const std::vector<std::size_t>* decision(int rank) const;
  /// Takes the step for this rank: calls check(), then moves one step further. `decided` is the decision of the step's
  /// first rank; it is ignored for later ranks.
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
    int rank;  // the first rank of this step
    std::vector<std::size_t> decided;
  };
  [[nodiscard]] const DefinedStep* defined(std::size_t index) const;
  void forget_common_steps();

  std::vector<std::size_t> steps_;  // [rank]
  std::deque<DefinedStep> defined_;
  std::size_t forgotten_ = 0;  // steps before `defined_`, which all ranks have taken
};

}  // namespace xstage::memory
