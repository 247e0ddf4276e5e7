#pragma once
/// Reading and writing the files that a user keeps: samples (CSV), platform profiles and workloads (JSON).
/// Every reader throws InputError naming file, place, value and rule; every writer writes a temporary file beside the
/// target and renames it, so a failed run leaves the old file or none.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/node.hpp"
#include "xstage/platform.hpp"

namespace xstage {

inline constexpr std::string_view samples_schema = "xstage.samples/1";
inline constexpr std::string_view platform_schema = "xstage.platform/1";

struct SamplesFile {
  NodeDescription node;
  std::vector<BurstSample> samples;
  std::string code{};  ///< JSON on one line: the machine code that measured; empty if no kernel did, or in older files
};

/// `origin` names the source in error messages. docs/samples-format.md
[[nodiscard]] SamplesFile parse_samples(std::string_view text, std::string_view origin);
[[nodiscard]] std::string format_samples(const SamplesFile& file);
[[nodiscard]] SamplesFile read_samples(const std::filesystem::path& path);

/// docs/profile-format.md
[[nodiscard]] Platform parse_platform(std::string_view text, std::string_view origin);
[[nodiscard]] std::string format_platform(const Platform& platform);
[[nodiscard]] Platform read_platform(const std::filesystem::path& path);

/// Whole file as text, at most 64 MiB. "-" is the standard input; a file of that name is "./-". InputError if it cannot
/// be read.
[[nodiscard]] std::string read_text(const std::filesystem::path& path);
/// Atomic: temporary file in the same folder, fsync, rename. InputError if the folder is missing or not writable.
void write_text(const std::filesystem::path& path, std::string_view text);
/// Throws InputError now if write_text(path) would fail later: called before minutes of measurement.
void check_writable(const std::filesystem::path& path);

}  // namespace xstage
