#pragma once
// The parts that all files in bench/results share.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "xstage/node.hpp"

namespace xstage::bench {

/// Everything but the rows: schema, hardware (these devices of the node, all if empty), commit, command, date.
[[nodiscard]] nlohmann::ordered_json result_document(const std::string& bench, const NodeDescription& node,
                                                     const std::vector<int>& devices = {});

/// The file's text, with `rows_hash` (report/code_record.hpp) before the rows: one row a line, so that a new
/// measurement reads as a change of rows.
[[nodiscard]] std::string format_result_file(const nlohmann::ordered_json& document);

}  // namespace xstage::bench
