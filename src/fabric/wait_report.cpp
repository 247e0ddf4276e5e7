#include <fmt/format.h>

#include <string_view>

#include "fabric/wait_report_text.hpp"

namespace xstage::kernels {

namespace {

struct SiteText {
  WaitSite site;
  std::string_view text;
};

constexpr SiteText site_texts[] = {
    {WaitSite::peer_entry,
     "peer entry (the peer has not started this call: was it launched on every rank, in the same order?)"},
    {WaitSite::partial_tile,
     "partial tile (the peer's partial sums of a half tile have not arrived: was the operation launched on every rank, "
     "in the same order?)"},
    {WaitSite::gathered_chunk, "gathered chunk (the peer's rows have not arrived)"},
    {WaitSite::peer_done, "peer done (the peer has not finished its stores to this rank)"},
    {WaitSite::copies_sent, "copies sent (this rank's copy engine has not finished its transfers)"},
    {WaitSite::end_of_call, "end of call (another rank had given up before this one finished)"},
    {WaitSite::input_tile,
     "input tile (a tile of the projection before it has not arrived: was that launched on every rank, before this "
     "operation?)"},
    {WaitSite::own_blocks,
     "own CTAs (another CTA of this rank has not counted its tokens: all of them must fit on the GPU at once)"},
    {WaitSite::sent_tokens, "sent tokens (the peer's tokens for experts of this rank have not arrived)"},
    {WaitSite::returned_rows,
     "returned rows (what the peer's experts computed for tokens of this rank has not arrived)"},
};

std::string_view site_text(std::uint32_t site) {
  for (const SiteText& entry : site_texts) {
    if (static_cast<std::uint32_t>(entry.site) == site) {
      return entry.text;
    }
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
