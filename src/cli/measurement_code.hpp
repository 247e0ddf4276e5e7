#pragma once
/// Which machine code measured.

#include <string>

#include "cli/console.hpp"

namespace xstage::cli {

/// As it stands in the samples file: of this build where it measures, of the recorded samples where it does not. Empty
/// where no kernel ran or the build has no table of them.
[[nodiscard]] std::string code_of_measurement(const Console& console, const std::string& node);

}  // namespace xstage::cli
