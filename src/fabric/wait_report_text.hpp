#pragma once

#include <string>

#include "fabric/wait_report.hpp"

namespace xstage::kernels {

/// The report as a message: which rank waited, where, for which peer and value, what it saw, and what the user can do.
[[nodiscard]] std::string describe(const WaitReport& report);

}  // namespace xstage::kernels
