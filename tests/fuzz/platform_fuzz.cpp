/// Fuzz target of the profile reader, and of the model at whatever numbers a profile may hold.

#include <algorithm>
#include <cmath>

#include "xstage/files.hpp"

#include "fuzz_input.hpp"
#include "same.hpp"

namespace {

using namespace xstage;

void require_sane_predictions(const OperatingPointOrReason& found, double gap_us) {
  const model::OperatingPoint& point = found.point;
  fuzz::require(!found.usable || !std::isnan(model::free_running::period_us(point, gap_us)), "a usable point predicts");
  fuzz::require(!found.usable || !found.capacity_known || !std::isnan(model::aligned::period_us(point, gap_us)),
                "a point with known capacity predicts aligned bursts");
  fuzz::require(found.reasons.empty() == (found.usable && found.capacity_known), "what is missing has a reason");
}

void evaluate(const Platform& platform) {
  for (const PathProfile& profile : platform.paths) {
    const int most = platform.node.devices.front().multiprocessors;
    for (const int producers : {1, std::min(33, most), most}) {
      for (const double bytes : {16.0, 32768.0, 0x1p50}) {
        require_sane_predictions(operating_point(platform, profile.path, producers, bytes), 10);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto platform = fuzz::parse_or_refuse(parse_platform, fuzz::as_text(data, size));
  if (platform) {
    const Platform again = parse_platform(format_platform(*platform), "fuzz");
    fuzz::require(same(*platform, again), "what parses is formatted and parsed to the same profile");
    evaluate(*platform);
  }
  return 0;
}
