#pragma once
/// What the test of `xstage audit` says of the regimes that were asked for.

#include <string_view>

#include "xstage/audit.hpp"

namespace xstage::cli {

enum class Outcome { passed, failed, not_decided };

/// "passed", "NOT passed", "cannot decide".
[[nodiscard]] std::string_view words_of(Outcome outcome);

/// `regime`: "aligned", "free-running" or "both". A regime that stalls for at most `max_stall` of its tile time passes.
/// One regime that fails decides the outcome; otherwise one that is not known does.
[[nodiscard]] Outcome outcome_of(const Audit& audit, std::string_view regime, double max_stall);

}  // namespace xstage::cli
