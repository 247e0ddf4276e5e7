#pragma once
/// The comment lines that open a samples file: `# key: value`, schema first, then provenance.

#include <string>
#include <string_view>

#include "files/csv.hpp"
#include "xstage/node.hpp"

namespace xstage::files {

struct SamplesHeader {
  NodeDescription node;
  std::string code;      ///< as SamplesFile::code
  std::size_t rows = 0;  ///< announced number of data rows: a file cut between two lines is noticed
};

/// Collects header lines; every key at most once.
class SamplesHeaderReader {
 public:
  explicit SamplesHeaderReader(std::string_view origin) : origin_(origin) {}
  [[nodiscard]] static bool is_header(const TextLine& line) { return line.text.starts_with('#'); }
  void read(const TextLine& line);
  /// Throws InputError naming a key that is missing.
  [[nodiscard]] SamplesHeader finish() const;

 private:
  void read_schema(const TextLine& line, std::string_view value);
  void read_device(const TextLine& line, std::string_view key, std::string_view value);
  void read_rows(const TextLine& line, std::string_view value);
  void read_text(const TextLine& line, std::string_view key, std::string_view value);
  void refuse_second(const TextLine& line, std::string_view key);

  std::string_view origin_;
  std::vector<std::string_view> keys_;
  SamplesHeader header_;
};

[[nodiscard]] std::string format_samples_header(const SamplesHeader& header);

}  // namespace xstage::files
