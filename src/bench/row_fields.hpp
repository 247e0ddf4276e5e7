#pragma once
// Numbers in result files.

#include <nlohmann/json.hpp>

namespace xstage::bench {

using Json = nlohmann::ordered_json;

/// Rounded to nanoseconds, which are finer than any event; the file becomes half as large.
[[nodiscard]] double rounded(double microseconds);

/// The number, or null if it is not finite.
[[nodiscard]] Json number(double value);

}  // namespace xstage::bench
