#pragma once
/// Machine-readable results. A number that was not measured or has no bound is null; nothing else reaches stdout.

#include <nlohmann/json.hpp>
#include <ostream>

#include "xstage/model.hpp"
#include "xstage/platform.hpp"

namespace xstage::cli {

using Json = nlohmann::ordered_json;

void print_json(std::ostream& out, const Json& document);

[[nodiscard]] Json to_json(const NodeDescription& node);
/// `capacity_known` tells a null capacity that nothing bounds from one that was not measured.
[[nodiscard]] Json to_json(const OperatingPointOrReason& point);

}  // namespace xstage::cli
