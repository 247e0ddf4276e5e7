#include "files/node_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "files/quote.hpp"

namespace xstage::files {
namespace {

using nlohmann::ordered_json;

/// Far above the number of any machine, and far below numbers that would overflow or exhaust memory.
constexpr int most_multiprocessors = 65536;
constexpr int highest_compute_capability = 9999;

bool is_utf8(std::string_view text) {
  try {
    (void)ordered_json(text).dump();
    return true;
  } catch (const ordered_json::type_error&) {
    return false;
  }
}

std::string read_line_text(const JsonValue& value) {
  std::string text = value.text();
  if (!is_one_line(text)) {
    value.fail(one_line_rule);
  }
  return text;
}

void require(bool holds, std::string_view key, const std::string& value, std::string_view rule) {
  if (!holds) {
    throw InputError(fmt::format("{}: {}: {}", key, value, rule));
  }
}

void check_device(const Device& device) {
  require(is_one_line(device.name), "device name", quote(device.name), one_line_rule);
  require(device.multiprocessors >= 1 && device.multiprocessors <= most_multiprocessors, "multiprocessors",
          fmt::to_string(device.multiprocessors), fmt::format("must be from 1 to {}", most_multiprocessors));
  require(device.compute_capability >= 0 && device.compute_capability <= highest_compute_capability,
          "compute_capability", fmt::to_string(device.compute_capability),
          fmt::format("must be from 0 to {}", highest_compute_capability));
  require(device.memory_bytes >= 0, "memory_bytes", fmt::to_string(device.memory_bytes), "must be at least 0");
  require(std::isnan(device.clock_mhz) || (std::isfinite(device.clock_mhz) && device.clock_mhz >= 0), "clock_mhz",
          fmt::to_string(device.clock_mhz), "must be finite and at least 0, or not a number");
}

}  // namespace

bool is_one_line(std::string_view text) { return !has_control_character(text) && is_utf8(text); }

ordered_json number_or_null(double number) {
  if (std::isinf(number)) {
    throw InputError(fmt::format("{}: only finite numbers can be written", number));
  }
  return std::isnan(number) ? ordered_json(nullptr) : ordered_json(number);
}

Device read_device(const JsonValue& value) {
  value.allow_only({"name", "multiprocessors", "compute_capability", "memory_bytes", "clock_mhz"});
  Device device;
  device.name = read_line_text(value.member("name"));
  device.multiprocessors = value.member("multiprocessors").small_integer(1, most_multiprocessors);
  device.compute_capability = value.member("compute_capability").small_integer(0, highest_compute_capability);
  device.memory_bytes = value.member("memory_bytes").integer(0, std::numeric_limits<std::int64_t>::max());
  device.clock_mhz = value.member("clock_mhz").number_or_null(0);
  return device;
}

ordered_json write_device(const Device& device) {
  check_device(device);
  return {{"name", device.name},
          {"multiprocessors", device.multiprocessors},
          {"compute_capability", device.compute_capability},
          {"memory_bytes", device.memory_bytes},
          {"clock_mhz", number_or_null(device.clock_mhz)}};
}

NodeDescription read_node(const JsonValue& value) {
  value.allow_only(
      {"kind", "name", "links", "driver", "cuda", "date", "tool_version", "commit", "command", "sweep", "devices"});
  NodeDescription node;
  for (const NodeText& text : node_texts) {
    node.*text.member = read_line_text(value.member(text.key));
  }
  const JsonValue devices = value.member("devices");
  for (const JsonValue& device : devices.elements()) {
    node.devices.push_back(read_device(device));
  }
  if (node.devices.empty() || node.devices.size() > most_devices) {
    devices.fail(fmt::format("must name from 1 to {} devices", most_devices));
  }
  return node;
}

ordered_json write_node(const NodeDescription& node) {
  check_node(node);
  ordered_json result = ordered_json::object();
  for (const NodeText& text : node_texts) {
    result[std::string(text.key)] = node.*text.member;
  }
  result["devices"] = ordered_json::array();
  for (const Device& device : node.devices) {
    result["devices"].push_back(write_device(device));
  }
  return result;
}

void check_node(const NodeDescription& node) {
  for (const NodeText& text : node_texts) {
    require(is_one_line(node.*text.member), text.key, quote(node.*text.member), one_line_rule);
  }
  require(!node.devices.empty() && node.devices.size() <= most_devices, "devices", fmt::to_string(node.devices.size()),
          fmt::format("must be from 1 to {}", most_devices));
  std::for_each(node.devices.begin(), node.devices.end(), check_device);
}

}  // namespace xstage::files
