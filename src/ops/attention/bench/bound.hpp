#pragma once
// The shortest sequence whose communication is hidden: the model's prediction, and what a run has measured.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/row.hpp"

namespace xstage::bench {

/// Largest residual that counts as hidden: the fused kernel takes at most this fraction longer than attention alone.
inline constexpr double most_residual = 0.03;

/// Bound for full attentions that differ only in their length.
struct HidingBound {
  int heads = 0;  // of all ranks
  int kv_heads = 0;
  int head_dim = 0;
  int ranks = 1;
  /// M_ub*: with at least this many keys a main loop hides the stores of its wave. The largest value of the cells,
  /// whose waves differ.
  double predicted_keys = 0;
  /// Shortest measured sequence whose residual's whole 95% interval lies below `most_residual`; none if there is none.
  std::optional<std::int64_t> found_keys;
};

/// Bounds in the order in which the heads appear in the rows, from rows `fused` that have a prediction.
[[nodiscard]] std::vector<HidingBound> hiding_bounds(const std::vector<Row>& rows);

/// The bounds for the result file.
[[nodiscard]] Json bounds_json(const std::vector<HidingBound>& bounds);

/// The bound as one line of text.
[[nodiscard]] std::string bound_text(const HidingBound& bound);

}  // namespace xstage::bench
