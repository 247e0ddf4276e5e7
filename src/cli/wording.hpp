#pragma once
/// Text that several verbs share.

#include <string>
#include <string_view>

#include "cli/table.hpp"
#include "node/words.hpp"
#include "xstage/platform.hpp"

namespace xstage::cli {

/// "h200x2: 2 x NVIDIA H200".
[[nodiscard]] std::string node_line(const NodeDescription& node);

/// The model's numbers at one (K, B), with units; what is not known says so.
[[nodiscard]] Listing operating_point_listing(const OperatingPointOrReason& point);

/// The fitted size that a burst lies beyond, in words; empty where nothing is extrapolated.
[[nodiscard]] std::string extrapolation_text(const OperatingPointOrReason& point);

/// A name given on the command line: usage error, not bad input, if there is none such.
[[nodiscard]] StorePath parse_path_option(const std::string& text);

/// Option help that several verbs share.
inline constexpr const char* path_help = "store path: store4, store8, store16 or bulk";
inline constexpr const char* json_help = "machine-readable result on the standard output, and nothing else there";

}  // namespace xstage::cli
