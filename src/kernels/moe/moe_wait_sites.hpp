#pragma once
// What the exchange kernels wait for beyond the sites that all operations share. Numbered apart from those, so that an
// operation more does not change what the others are compiled from.

#include <string>

#include "kernels/common/wait_report.hpp"

namespace xstage::kernels {

struct MoeWaitSite {
  static constexpr WaitSite own_blocks = static_cast<WaitSite>(64);     // have the rank's other CTAs counted?
  static constexpr WaitSite sent_tokens = static_cast<WaitSite>(65);    // have the peer's tokens arrived?
  static constexpr WaitSite returned_rows = static_cast<WaitSite>(66);  // has what the peer's experts computed?
};

/// The text of a wait report, in which these sites are unknown ones, with their names.
[[nodiscard]] std::string with_moe_site(std::string text, std::uint32_t site);

}  // namespace xstage::kernels
