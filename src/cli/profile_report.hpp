#pragma once
/// What a calibration or a fit found, for people and for programs.

#include <ostream>

#include "cli/json_output.hpp"
#include "xstage/platform.hpp"

namespace xstage::cli {

/// The fitted numbers with their intervals; what the data could not support, with the reason.
void print_profile(std::ostream& out, const Platform& platform);

/// The profile itself, as docs/profile-format.md describes it.
[[nodiscard]] Json profile_json(const Platform& platform);

}  // namespace xstage::cli
