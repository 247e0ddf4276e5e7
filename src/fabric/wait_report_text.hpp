#pragma once

#include <string>

#include "fabric/wait_report.hpp"

namespace xstage::kernels {

/// What an expired wait says to a human: who waited, where, for whom, for what, what it saw, and what to do.
[[nodiscard]] std::string describe(const WaitReport& report);

}  // namespace xstage::kernels
