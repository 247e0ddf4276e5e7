#pragma once
/// Provenance as JSON: a whole NodeDescription in profiles, one Device a line in the header of samples files.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "files/json_reader.hpp"
#include "xstage/node.hpp"

namespace xstage::files {

inline constexpr std::size_t most_devices = 1024;

[[nodiscard]] Device read_device(const JsonValue& value);
[[nodiscard]] nlohmann::ordered_json write_device(const Device& device);

[[nodiscard]] NodeDescription read_node(const JsonValue& value);
[[nodiscard]] nlohmann::ordered_json write_node(const NodeDescription& node);

/// Checks a description that was built in memory. Throws InputError with key, value and rule.
void check_node(const NodeDescription& node);

/// Whether the text is UTF-8 without control characters, so that it fits on one header line of a samples file.
[[nodiscard]] bool is_one_line(std::string_view text);
inline constexpr std::string_view one_line_rule = "must be one line of UTF-8 text without control characters";

/// The text members of a description, by their key in every file.
struct NodeText {
  std::string_view key;
  std::string NodeDescription::*member;
};
inline constexpr NodeText node_texts[] = {
    {"kind", &NodeDescription::kind},
    {"name", &NodeDescription::name},
    {"links", &NodeDescription::links},
    {"driver", &NodeDescription::driver},
    {"cuda", &NodeDescription::cuda},
    {"date", &NodeDescription::date},
    {"tool_version", &NodeDescription::tool_version},
    {"commit", &NodeDescription::commit},
    {"command", &NodeDescription::command},
    {"sweep", &NodeDescription::sweep},
};

/// NaN is written as null. Throws InputError for an infinite number.
[[nodiscard]] nlohmann::ordered_json number_or_null(double number);

}  // namespace xstage::files
