#include "cli/same_machine.hpp"

#include <fmt/format.h>

#include <string_view>

#include "xstage/error.hpp"

namespace xstage::cli {

namespace {

std::string_view model_of(const Device& device) {
  constexpr std::string_view simulated = " (simulated)";
  std::string_view name = device.name;
  if (name.ends_with(simulated)) {
    name.remove_suffix(simulated.size());
  }
  return name;
}

}  // namespace

void require_same_machine(const std::string& profile, const NodeDescription& fitted, const std::string& samples,
                          const NodeDescription& measured) {
  if (fitted.devices.empty() || measured.devices.empty()) {
    return;
  }
  const Device& of_profile = fitted.devices.front();
  const Device& of_samples = measured.devices.front();
  if (model_of(of_profile) != model_of(of_samples) || of_profile.multiprocessors != of_samples.multiprocessors) {
    throw InputError(fmt::format(
        "{}: samples of {} ({} multiprocessors), but {} is a profile of {} ({}): both must be of one machine", samples,
        of_samples.name, of_samples.multiprocessors, profile, of_profile.name, of_profile.multiprocessors));
  }
}

}  // namespace xstage::cli
