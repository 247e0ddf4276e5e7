#include "cli/wording.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/exit_code.hpp"
#include "cli/quantities.hpp"
#include "xstage/error.hpp"

namespace xstage::cli {

std::string node_line(const NodeDescription& node) {
  if (node.devices.empty()) {
    return node.name;
  }
  return fmt::format("{}: {} x {}, {} multiprocessors each", node.name, node.devices.size(), node.devices[0].name,
                     node.devices[0].multiprocessors);
}

Listing operating_point_listing(const OperatingPointOrReason& point) {
  const model::OperatingPoint& numbers = point.point;
  const auto known = [&](double value, int decimals) { return point.usable ? fixed(value, decimals) : "not known"; };
  Listing listing;
  listing.add("burst volume V", bytes_text(numbers.volume_bytes));
  listing.add("drain rate R (GB/s)", known(numbers.drain_bytes_per_us / 1000, 1));
  listing.add("drain time of one burst V/R (microseconds)", known(model::drain_time_us(numbers), 2));
  listing.add("issue time without back-pressure T_iss0 (microseconds)", known(numbers.issue_floor_us, 2));
  listing.add("recovery gap G* (microseconds)", known(model::recovery_gap_us(numbers), 2));
  listing.add("outstanding capacity Q",
              point.capacity_known ? (std::isinf(numbers.capacity_bytes) ? "not limiting: the producers' own rate is"
                                                                         : bytes_text(numbers.capacity_bytes))
                                   : "not known");
  const std::string doubt = extrapolation_text(point);
  if (!doubt.empty()) {
    listing.add("T_iss0 is extrapolated", doubt);
  }
  return listing;
}

std::string extrapolation_text(const OperatingPointOrReason& point) {
  if (!std::isnan(point.extrapolated_beyond_bytes)) {
    return fmt::format("the largest fitted size is {}", bytes_text(point.extrapolated_beyond_bytes));
  }
  if (!std::isnan(point.extrapolated_below_bytes)) {
    return fmt::format("the smallest fitted size is {}", bytes_text(point.extrapolated_below_bytes));
  }
  return "";
}

StorePath parse_path_option(const std::string& text) {
  try {
    return parse_name<StorePath>(text);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--path: {}", error.what()));
  }
}

}  // namespace xstage::cli
