#pragma once
// Numbers in result files.

#include <nlohmann/json.hpp>

namespace xstage::bench {

using Json = nlohmann::ordered_json;

/// Nanoseconds are finer than any event; the file stays half as large.
[[nodiscard]] double rounded(double microseconds);

/// Null for what is not a finite number.
[[nodiscard]] Json number(double value);

}  // namespace xstage::bench
