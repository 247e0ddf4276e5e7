#pragma once
// Chooses the experts of tokens, with one class for each skew.

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/moe/bench/routing.hpp"

namespace xstage::moe {

/// The ranks on which experts may lie, relative to the rank of the token.
enum class Side { any, own, other };

class ExpertChooser {
 public:
  ExpertChooser() = default;
  ExpertChooser(const ExpertChooser&) = delete;
  ExpertChooser& operator=(const ExpertChooser&) = delete;
  virtual ~ExpertChooser() = default;
  /// Appends `count` experts of that side that are not yet in `chosen`, as a token of rank `source` chooses them. There
  /// must be that many.
  virtual void choose(int source, Side side, int count, std::vector<std::int32_t>& chosen) = 0;
};

/// Makes the chooser for a valid request.
[[nodiscard]] std::unique_ptr<ExpertChooser> make_expert_chooser(const RoutingRequest& request);

/// Popularities of experts, the hottest first: the -s-th power of 1, 2, 3 and so on, for the largest s in steps of
/// 1/256 with which the hottest expert has at most 4 times the mean, and at most one choice of each token.
[[nodiscard]] std::vector<std::uint64_t> zipf_popularities(int experts, int top_k);

/// Experts of all ranks from the hottest on. They are dealt to the ranks in alternating direction, so that no rank has
/// more of the hot ones, as a serving system would place them.
[[nodiscard]] std::vector<std::int32_t> popularity_order(const RoutingRequest& request);

}  // namespace xstage::moe
