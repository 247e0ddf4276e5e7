#include <fmt/format.h>

#include "kernels/common/wait_report_text.hpp"

namespace xstage::kernels {

namespace {

const char* site_text(std::uint32_t site) {
  switch (static_cast<WaitSite>(site)) {
    case WaitSite::peer_entry:
      return "peer entry (the peer has not started this call: was it launched on every rank, in the same order?)";
    case WaitSite::partial_tile:
      return "partial tile (the peer's partial sums of a half tile have not arrived: was the operation launched on "
             "every rank, in the same order?)";
    case WaitSite::gathered_chunk:
      return "gathered chunk (the peer's rows have not arrived)";
    case WaitSite::peer_done:
      return "peer done (the peer has not finished its stores to this rank)";
    case WaitSite::end_of_call:
      return "end of call (another rank had given up before this one finished)";
    case WaitSite::input_tile:
      return "input tile (a tile of the projection before it has not arrived: was that launched on every rank, before "
             "this operation?)";
    case WaitSite::copies_sent:
      return "copies sent (this rank's copy engine has not finished its transfers)";
  }
  return "unknown site";
}

}  // namespace

std::string describe(const WaitReport& report) {
  return fmt::format(
      "rank {} waited {} us for rank {} in call {} and {}: {}; counter {} is {}, expected {} (CTA {}). Results of this "
      "call are invalid on every rank; call reset() on all ranks before the next one",
      report.rank, report.waited_us, report.peer, report.epoch,
      report.told != 0 ? "stopped because another wait had given up" : "gave up", site_text(report.site), report.index,
      report.observed, report.expected, report.block);
}

}  // namespace xstage::kernels
