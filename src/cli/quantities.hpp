#pragma once
/// Quantities on the command line and on the screen.

#include <string>
#include <string_view>
#include <vector>

namespace xstage::cli {

/// "32768", "32KiB", "1.5MiB" -> bytes. Throws UsageError naming the option, the text and the rule.
[[nodiscard]] double parse_bytes(std::string_view option, std::string_view text);

/// "5%" or "0.05" -> a fraction of at least 0.
[[nodiscard]] double parse_share(std::string_view option, std::string_view text);

/// "12.5" -> microseconds.
[[nodiscard]] double parse_microseconds(std::string_view option, std::string_view text);

/// "G" or "G:G2:STEP" (both ends included) -> microseconds in rising order, at most 100,000 values.
[[nodiscard]] std::vector<double> parse_gaps(std::string_view option, std::string_view text);

/// A number with `decimals` places; "-" if it was not measured, "unlimited" for infinity.
[[nodiscard]] std::string fixed(double value, int decimals);

/// With a sign, for margins.
[[nodiscard]] std::string margin(double value, int decimals);

/// A fraction as a percentage, "12.3%".
[[nodiscard]] std::string percent(double fraction);

/// "32 KiB", "4.125 MiB", "100 bytes".
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace xstage::cli
