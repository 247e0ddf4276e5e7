#include "kernels/moe/dispatch_report.hpp"

#include <fmt/format.h>

namespace xstage::kernels {

std::string describe(const RoutingReport& report, int experts) {
  const std::string place = fmt::format("rank {}, token {}, choice {}", report.rank, report.token, report.choice);
  if (report.expert < MoeRoute::none || report.expert >= experts) {
    return fmt::format("{}: expert {}: it must be between 0 and {}, or -1 for none", place, report.expert, experts - 1);
  }
  return fmt::format("{}: router weight {}: it must be finite", place, report.weight);
}

}  // namespace xstage::kernels
