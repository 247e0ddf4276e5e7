#include "cli/json_output.hpp"

#include <cmath>

namespace xstage::cli {

void print_json(std::ostream& out, const Json& document) {
  // File names need not be UTF-8, JSON must be.
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json to_json(const NodeDescription& node) {
  Json devices = Json::array();
  for (const Device& device : node.devices) {
    devices.push_back({{"name", device.name},
                       {"multiprocessors", device.multiprocessors},
                       {"compute_capability", device.compute_capability},
                       {"memory_bytes", device.memory_bytes},
                       {"clock_mhz", device.clock_mhz}});
  }
  return {{"kind", node.kind},   {"name", node.name},     {"devices", devices},
          {"links", node.links}, {"driver", node.driver}, {"cuda", node.cuda}};
}

Json to_json(const OperatingPointOrReason& point) {
  const model::OperatingPoint& numbers = point.point;
  const double missing = not_measured;
  return {{"volume_bytes", numbers.volume_bytes},
          {"issue_floor_us", point.usable ? numbers.issue_floor_us : missing},
          {"drain_gb_per_s", point.usable ? numbers.drain_bytes_per_us / 1000 : missing},
          {"drain_time_us", point.usable ? model::drain_time_us(numbers) : missing},
          {"recovery_gap_us", point.usable ? model::recovery_gap_us(numbers) : missing},
          {"peak_outstanding_bytes", point.usable ? model::peak_outstanding_bytes(numbers) : missing},
          {"capacity_known", point.capacity_known},
          {"capacity_unlimited", point.capacity_known && std::isinf(numbers.capacity_bytes)},
          {"capacity_bytes", point.capacity_known ? numbers.capacity_bytes : missing},
          {"extrapolated_beyond_bytes", point.extrapolated_beyond_bytes},
          {"extrapolated_below_bytes", point.extrapolated_below_bytes},
          {"reasons", point.reasons}};
}

}  // namespace xstage::cli
