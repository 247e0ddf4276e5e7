#pragma once
// SwiGLU as the epilogue of Linear-1 computes it, on numbers from the host.

#include <vector>

namespace xstage::moe_test {

/// silu(gate) * up * weight of each gate, on the current device. `gates`: an even number of them, since neighbours
/// share a reciprocal. `clamp`: 0 for none.
[[nodiscard]] std::vector<float> activate_on_device(const std::vector<float>& gates, float up, float weight,
                                                    float clamp);

}  // namespace xstage::moe_test
