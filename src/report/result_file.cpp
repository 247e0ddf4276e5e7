#include "report/result_file.hpp"

#include <cmath>

#include "report/code_record.hpp"

namespace xstage::bench {

using Json = nlohmann::ordered_json;

Json result_document(const std::string& bench, const NodeDescription& node, const std::vector<int>& devices) {
  std::vector<std::string> gpus;
  if (devices.empty()) {
    for (const Device& device : node.devices) {
      gpus.push_back(device.name);
    }
  }
  for (const int device : devices) {
    gpus.push_back(node.devices.at(static_cast<std::size_t>(device)).name);
  }
  const double clock = node.devices.empty() ? not_measured : node.devices.front().clock_mhz;
  return {{"schema", "xstage.bench/1"},
          {"bench", bench},
          {"hardware",
           {{"gpus", gpus},
            {"links", node.links},
            {"driver", node.driver},
            {"cuda", node.cuda},
            {"clocks_mhz", std::isfinite(clock) ? Json(clock) : Json(nullptr)}}},
          {"commit", node.commit},
          {"command", node.command},
          {"date", node.date}};
}

std::string format_result_file(const Json& document) {
  // File names in the command need not be UTF-8, but JSON must be.
  const auto text_of = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); };
  std::string text = "{";
  std::string separator = "\n ";
  for (const auto& [name, value] : document.items()) {
    if (name != "rows") {
      text += separator + text_of(name) + ": " + text_of(value);
      separator = ",\n ";
    }
  }
  const Json rows = document.value("rows", Json::array());
  text += separator + "\"rows_hash\": " + text_of(rows_hash(rows)) + ",\n \"rows\": [";
  separator = "\n  ";
  for (const Json& row : rows) {
    text += separator + text_of(row);
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace xstage::bench
