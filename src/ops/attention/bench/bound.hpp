#pragma once
// The shortest sequence whose communication is hidden: as the model predicts it, and as a run has found it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/row.hpp"

namespace xstage::bench {

/// A residual that counts as hidden: fused takes at most so much longer than attention.
inline constexpr double most_residual = 0.03;

/// Of full attentions that differ in nothing but their length.
struct HidingBound {
  int heads = 0;  // of all ranks
  int kv_heads = 0;
  int head_dim = 0;
  int ranks = 1;
  /// M_ub*: from so many keys on a main loop hides what its wave stores. The largest of the cells', whose waves differ.
  double predicted_keys = 0;
  /// Shortest measured sequence whose residual's whole 95% interval lies below `most_residual`; none if there is none.
  std::optional<std::int64_t> found_keys;
};

/// In the order in which the heads come in the rows. Only of rows `fused` with a prediction.
[[nodiscard]] std::vector<HidingBound> hiding_bounds(const std::vector<Row>& rows);

/// Of the result file.
[[nodiscard]] Json bounds_json(const std::vector<HidingBound>& bounds);

/// One line.
[[nodiscard]] std::string bound_text(const HidingBound& bound);

}  // namespace xstage::bench
