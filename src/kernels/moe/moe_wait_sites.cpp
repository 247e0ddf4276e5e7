#include "kernels/moe/moe_wait_sites.hpp"

#include <string_view>

namespace xstage::kernels {

namespace {

std::string_view site_text(std::uint32_t site) {
  switch (site) {
    case static_cast<std::uint32_t>(MoeWaitSite::own_blocks):
      return "own CTAs (another CTA of this rank has not counted its tokens: all of them must fit on the GPU at once)";
    case static_cast<std::uint32_t>(MoeWaitSite::sent_tokens):
      return "sent tokens (the peer's tokens for experts of this rank have not arrived)";
    case static_cast<std::uint32_t>(MoeWaitSite::returned_rows):
      return "returned rows (what the peer's experts computed for tokens of this rank has not arrived)";
    default:
      return {};
  }
}

}  // namespace

std::string with_moe_site(std::string text, std::uint32_t site) {
  constexpr std::string_view unnamed = "unknown site";
  const std::string_view name = site_text(site);
  const std::size_t place = text.find(unnamed);
  if (!name.empty() && place != std::string::npos) {
    text.replace(place, unnamed.size(), name);
  }
  return text;
}

}  // namespace xstage::kernels
