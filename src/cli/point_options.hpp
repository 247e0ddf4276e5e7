#pragma once
/// What `measure` and `calibrate` ask of a node: counts, lists, regimes, device pairs as text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/node.hpp"

namespace xstage::cli {

/// A whole decimal number ("010" is ten) from `least` to 1,000,000. Throws UsageError naming option, text and rule, as
/// all of these.
[[nodiscard]] int parse_count(std::string_view option, std::string_view text, int least);

/// "aligned" or "free-running"; the word of the samples files, "free_running", is understood too.
[[nodiscard]] Regime parse_regime(std::string_view option, std::string_view text);

/// At most 1000 values, each given once: numbers in the notation of cli/quantities.hpp (lists and ranges), names with
/// commas between them. Sizes are whole bytes per producer, gaps microseconds.
[[nodiscard]] std::vector<int> parse_counts(std::string_view option, std::string_view text);
[[nodiscard]] std::vector<std::int64_t> parse_byte_list(std::string_view option, std::string_view text);
[[nodiscard]] std::vector<double> parse_gap_list(std::string_view option, std::string_view text);
[[nodiscard]] std::vector<StorePath> parse_paths(std::string_view text);
[[nodiscard]] std::vector<Regime> parse_regimes(std::string_view option, std::string_view text);

/// Two devices of a node, by index.
struct DevicePair {
  int source = 0;
  int destination = 1;
};

/// The pair of --source and --destination; the one that is not given is the first other device. Throws UsageError for
/// one device twice.
[[nodiscard]] DevicePair device_pair(std::optional<int> source, std::optional<int> destination);

inline constexpr const char* source_help = "device that stores";
inline constexpr const char* destination_help = "device to whose memory it stores";

}  // namespace xstage::cli
