#include "cli/quantities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "cli/exit_code.hpp"

namespace xstage::cli {

namespace {

constexpr double most_bytes = 1125899906842624.0;  // 1 PiB

struct ByteUnit {
  std::string_view suffix;
  double bytes;
};
constexpr std::array<ByteUnit, 4> byte_units{{{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}, {"B", 1.0}}};
/// As other tools of this field have them. Not "KB", which some read as 1000 bytes.
constexpr std::array<ByteUnit, 6> short_byte_units{
    {{"G", 1073741824.0}, {"g", 1073741824.0}, {"M", 1048576.0}, {"m", 1048576.0}, {"K", 1024.0}, {"k", 1024.0}}};

/// A plain decimal number, all of `text`. Not strtod's "nan", "inf" and hexadecimal forms, nor leading blanks.
bool parse_number(std::string_view text, double& value) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) {
    return false;
  }
  const std::string terminated(text);
  char* end = nullptr;
  value = std::strtod(terminated.c_str(), &end);
  return end == terminated.c_str() + terminated.size() && std::isfinite(value);
}

/// Takes the unit off the end of the digits; 1 where there is none.
double take_unit(std::string_view& digits) {
  const auto take = [&](const ByteUnit& unit) {
    const bool found = digits.ends_with(unit.suffix);
    digits.remove_suffix(found ? unit.suffix.size() : 0);
    return found;
  };
  for (const ByteUnit& unit : byte_units) {
    if (take(unit)) {
      return unit.bytes;
    }
  }
  for (const ByteUnit& unit : short_byte_units) {
    if (take(unit)) {
      return unit.bytes;
    }
  }
  return 1;
}

}  // namespace

void reject(std::string_view option, std::string_view text, std::string_view rule) {
  throw UsageError(fmt::format("{} '{}': {}", option, text, rule));
}

double parse_bytes(std::string_view option, std::string_view text) {
  constexpr std::string_view rule =
      "must be a whole number of bytes from 1 to 1 PiB, plain or with KiB, MiB or GiB (k, M or G) behind it (32768, "
      "32KiB or 32k)";
  std::string_view digits = text;
  const double unit = take_unit(digits);
  double value = 0;
  if (!parse_number(digits, value)) {
    reject(option, text, rule);
  }
  const double bytes = value * unit;
  if (bytes < 1 || bytes > most_bytes || bytes != std::floor(bytes)) {
    reject(option, text, rule);
  }
  return bytes;
}

double parse_share(std::string_view option, std::string_view text) {
  std::string_view digits = text;
  const bool in_percent = digits.ends_with('%');
  if (in_percent) {
    digits.remove_suffix(1);
  }
  double value = 0;
  if (!parse_number(digits, value) || value < 0) {
    reject(option, text, "must be a share of at least 0, as a percentage or a fraction (5% or 0.05)");
  }
  return in_percent ? value / 100 : value;
}

double parse_microseconds(std::string_view option, std::string_view text) {
  double value = 0;
  if (!parse_number(text, value) || value < 0) {
    reject(option, text, "must be a decimal number of microseconds, not negative (12.5)");
  }
  return value;
}

std::string decimal_digits(std::string_view option, std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    reject(option, text, "must be a whole number in decimal digits (16; not 0x10)");
  }
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (negative ? "-" : "") + std::string(digits);
}

std::string decimal_number(std::string_view option, std::string_view text) {
  double value = 0;
  if (!parse_number(text, value)) {
    reject(option, text, "must be a finite decimal number (1.5; not 0x10)");
  }
  return std::string(text);
}

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) {
    return "-";
  }
  if (std::isinf(value)) {
    return value > 0 ? "unlimited" : "-unlimited";
  }
  return fmt::format("{:.{}f}", value, decimals);
}

std::string margin(double value, int decimals) {
  if (!std::isfinite(value)) {
    return fixed(value, decimals);
  }
  if (value == 0) {
    return fmt::format("{:+.{}f}", 0.0, decimals);  // never "-0.00"
  }
  constexpr int most_decimals = 9;
  for (int more = decimals; more <= most_decimals; ++more) {
    std::string text = fmt::format("{:+.{}f}", value, more);
    if (text.find_first_of("123456789") != std::string::npos) {
      return text;
    }
  }
  return fmt::format("{:+.1e}", value);
}

std::string percent(double fraction) { return std::isnan(fraction) ? "-" : fixed(100 * fraction, 1) + "%"; }

std::string bytes_text(double bytes) {
  for (const ByteUnit& unit : byte_units) {
    if (unit.bytes > 1 && std::isfinite(bytes) && bytes >= unit.bytes) {
      return fmt::format("{:.4g} {}", bytes / unit.bytes, unit.suffix);
    }
  }
  return fixed(bytes, 0) + " bytes";
}

}  // namespace xstage::cli
