#pragma once
/// Quantities on the command line and on the screen.

#include <string>
#include <string_view>
#include <vector>

namespace xstage::cli {

/// Throws UsageError "OPTION 'TEXT': RULE".
[[noreturn]] void reject(std::string_view option, std::string_view text, std::string_view rule);

/// "32768", "32KiB", "32k", "1.5MiB" -> bytes. Throws UsageError naming the option, the text and the rule.
[[nodiscard]] double parse_bytes(std::string_view option, std::string_view text);

/// "5%" or "0.05" -> a fraction of at least 0.
[[nodiscard]] double parse_share(std::string_view option, std::string_view text);

/// "12.5" -> microseconds.
[[nodiscard]] double parse_microseconds(std::string_view option, std::string_view text);

/// A whole number in decimal digits, with a sign if it is negative, without leading zeros: "010" is "10". Throws
/// UsageError for "0x10" and everything else that is no such number.
[[nodiscard]] std::string decimal_digits(std::string_view option, std::string_view text);

/// The text, if it is a finite number in decimal notation ("1.5", "2e3"); throws UsageError for "0x10", "inf" and
/// "nan".
[[nodiscard]] std::string decimal_number(std::string_view option, std::string_view text);

/// Lists: VALUE, FIRST:LAST:STEP or FIRST:LAST:xFACTOR (both ends included), and several of these with commas between
/// them, in the order in which they stand; at most 100,000 values.
[[nodiscard]] std::vector<double> parse_gaps(std::string_view option, std::string_view text);
[[nodiscard]] std::vector<double> parse_byte_sizes(std::string_view option, std::string_view text);
[[nodiscard]] std::vector<int> parse_producers(std::string_view option, std::string_view text);

inline constexpr const char* list_help = "one or several: A,B,... or FIRST:LAST:STEP or FIRST:LAST:xFACTOR";

/// A number with `decimals` places; "-" if it was not measured, "unlimited" for infinity.
[[nodiscard]] std::string fixed(double value, int decimals);

/// With its true sign, for margins: more places where `decimals` would show a margin that is not zero as zero.
[[nodiscard]] std::string margin(double value, int decimals);

/// A fraction as a percentage, "12.3%".
[[nodiscard]] std::string percent(double fraction);

/// "32 KiB", "4.125 MiB", "100 bytes".
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace xstage::cli
