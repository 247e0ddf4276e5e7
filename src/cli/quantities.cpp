#include "cli/quantities.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "cli/exit_code.hpp"

namespace xstage::cli {

namespace {

constexpr double most_gaps = 100000;
constexpr double most_bytes = 1125899906842624.0;  // 1 PiB

struct ByteUnit {
  std::string_view suffix;
  double bytes;
};
constexpr std::array<ByteUnit, 4> byte_units{{{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}, {"B", 1.0}}};

[[noreturn]] void reject(std::string_view option, std::string_view text, std::string_view rule) {
  throw UsageError(fmt::format("{} '{}': {}", option, text, rule));
}

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

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = text.find(separator); colon != std::string_view::npos; colon = text.find(separator)) {
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace

double parse_bytes(std::string_view option, std::string_view text) {
  constexpr std::string_view rule =
      "must be a whole number of bytes from 1 to 1 PiB, plain or with KiB, MiB or GiB behind it (32768 or 32KiB)";
  std::string_view digits = text;
  double unit = 1;
  for (const ByteUnit& candidate : byte_units) {
    if (digits.ends_with(candidate.suffix)) {
      digits.remove_suffix(candidate.suffix.size());
      unit = candidate.bytes;
      break;
    }
  }
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
    reject(option, text, "must be a number of microseconds, not negative (12.5)");
  }
  return value;
}

std::vector<double> parse_gaps(std::string_view option, std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() == 1) {
    return {parse_microseconds(option, text)};
  }
  if (parts.size() != 3) {
    reject(option, text, "must be GAP or FIRST:LAST:STEP, in microseconds (12.5 or 0:16:2)");
  }
  const double first = parse_microseconds(option, parts[0]);
  const double last = parse_microseconds(option, parts[1]);
  const double step = parse_microseconds(option, parts[2]);
  if (last < first || step <= 0) {
    reject(option, text, "FIRST:LAST:STEP needs LAST at least FIRST and STEP above zero");
  }
  // The last value must not be lost to rounding: 0:1:0.1 has eleven values.
  const double steps = std::floor((last - first) / step + 1e-9);
  if (steps >= most_gaps) {
    reject(option, text, "names more than 100000 gaps");
  }
  std::vector<double> gaps;
  for (double index = 0; index <= steps; ++index) {
    gaps.push_back(first + index * step);
  }
  return gaps;
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
  return std::isfinite(value) ? fmt::format("{:+.{}f}", value, decimals) : fixed(value, decimals);
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
