#pragma once
/// What a mistyped word was meant to be.

#include <string>
#include <string_view>
#include <vector>

namespace xstage::cli {

/// The known word that the fewest inserted, removed and replaced characters lead to; empty if none is near enough to be
/// a slip: more than a third of the word would be different.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace xstage::cli
