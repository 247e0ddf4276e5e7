#pragma once

#include <string>

#include "kernels/moe/moe_exchange_parameters.hpp"

namespace xstage::kernels {

/// What a complete report means, for users. `experts`: of all ranks.
[[nodiscard]] std::string describe(const RoutingReport& report, int experts);

}  // namespace xstage::kernels
