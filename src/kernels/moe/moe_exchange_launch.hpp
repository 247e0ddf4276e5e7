#pragma once
// What the plans of dispatch and combine have in common. For the files that compile them.

#include <algorithm>
#include <cstdint>

#include "kernels/moe/moe_exchange_parameters.hpp"

namespace xstage::kernels::moe_exchange {

/// What a Hopper multiprocessor gives one CTA.
inline constexpr std::int32_t most_shared_bytes = 227 * 1024;

/// The largest pieces up to that size that cut a row evenly.
[[nodiscard]] inline std::int32_t even_piece(std::int32_t row_bytes, std::int32_t most_bytes) {
  constexpr std::int32_t unit = 16;
  const std::int32_t most = std::max(unit, most_bytes / unit * unit);
  const std::int32_t pieces = (row_bytes + most - 1) / most;
  return ((row_bytes + pieces - 1) / pieces + unit - 1) / unit * unit;
}

/// Fits one of a launch's rings into shared memory beside whatever else the launch has there: a shorter ring first,
/// then shorter pieces. `shared_bytes()`: of the launch as it stands.
template <class SharedBytes>
void fit_ring(MoeRing& ring, std::int32_t row_bytes, std::int32_t piece, const SharedBytes& shared_bytes) {
  for (;;) {
    ring.stage_bytes = even_piece(row_bytes, piece);
    if (shared_bytes() <= most_shared_bytes) {
      return;
    }
    if (ring.stages > ring.under_way + 1) {
      --ring.stages;
    } else {
      piece = ring.stage_bytes - 16;
    }
  }
}

[[nodiscard]] inline int or_rule(int value, int rule) { return value == 0 ? rule : value; }

}  // namespace xstage::kernels::moe_exchange
