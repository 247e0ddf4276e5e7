#pragma once
/// Samples of a simulated node, to lay beside measured ones.

#include <ostream>
#include <string>

#include "xstage/files.hpp"

namespace xstage::cli {

inline constexpr const char* simulated_help =
    "run the same sweep on this simulated node (preset or FILE.json) and lay its samples beside the measured ones";

/// The remote samples of this preset or file, in the sweep that the measured ones come from.
[[nodiscard]] SamplesFile simulated_samples(const std::string& preset_or_file, const SamplesFile& measured);

/// How far it is from the measured node: fitted and held-out samples apart, mean and slowest producers apart.
void print_distances(std::ostream& out, const SamplesFile& measured, const SamplesFile& simulated);

}  // namespace xstage::cli
