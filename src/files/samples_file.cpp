/// Samples files: "xstage.samples/1", docs/samples-format.md.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "files/csv.hpp"
#include "files/samples_columns.hpp"
#include "files/samples_header.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage {
namespace {

using namespace files;

const SampleColumn* column_with_name(std::string_view name) {
  const auto columns = sample_columns();
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const SampleColumn& column) { return column.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

void refuse_missing_columns(const std::vector<const SampleColumn*>& present, std::string_view origin,
                            std::size_t line) {
  for (const SampleColumn& column : sample_columns()) {
    if (std::find(present.begin(), present.end(), &column) == present.end()) {
      fail_at_line(origin, line, fmt::format("column {} is missing; every column is required", column.name));
    }
  }
}

/// The columns in the file's own order.
std::vector<const SampleColumn*> read_column_names(const TextLine& line, std::string_view origin) {
  std::vector<const SampleColumn*> present;
  for (const std::string_view name : split(line.text, ',', sample_columns().size() + 1)) {
    const SampleColumn* const column = column_with_name(name);
    if (column == nullptr) {
      fail_at_line(origin, line.number, fmt::format("{}: unknown column", quote(name)));
    }
    if (std::find(present.begin(), present.end(), column) != present.end()) {
      fail_at_line(origin, line.number, fmt::format("{}: column appears twice", quote(name)));
    }
    present.push_back(column);
  }
  refuse_missing_columns(present, origin, line.number);
  return present;
}

BurstSample read_row(const TextLine& line, const std::vector<const SampleColumn*>& columns, const NodeDescription& node,
                     std::string_view origin) {
  const std::vector<std::string_view> cells = split(line.text, ',', columns.size() + 1);
  if (cells.size() != columns.size()) {
    fail_at_line(origin, line.number,
                 fmt::format("{}{} cells; the header names {} columns",
                             cells.size() > columns.size() ? "at least " : "", cells.size(), columns.size()));
  }
  BurstSample sample;
  for (std::size_t index = 0; index < cells.size(); ++index) {
    columns[index]->read(CsvCell(cells[index], columns[index]->name, origin, line.number), sample);
  }
  try {
    check_sample(sample, node);
  } catch (const InputError& error) {
    fail_at_line(origin, line.number, error.what());
  }
  return sample;
}

/// Reads the comment lines and returns the first line after them.
TextLine read_header(LineReader& lines, std::string_view origin, SamplesHeader& header) {
  SamplesHeaderReader reader(origin);
  std::optional<TextLine> line = lines.next();
  while (line && SamplesHeaderReader::is_header(*line)) {
    reader.read(*line);
    line = lines.next();
  }
  header = reader.finish();
  if (!line) {
    throw InputError(fmt::format("{}: no row of column names after the header", origin));
  }
  return *line;
}

void append_row(const BurstSample& sample, std::string& text) {
  for (const SampleColumn& column : sample_columns()) {
    text += column.write(sample);
    text += ',';
  }
  text.back() = '\n';
}

}  // namespace

SamplesFile parse_samples(std::string_view text, std::string_view origin) {
  LineReader lines(text, origin);
  SamplesHeader header;
  const TextLine names = read_header(lines, origin, header);
  const std::vector<const SampleColumn*> columns = read_column_names(names, origin);
  SamplesFile file;
  while (const std::optional<TextLine> line = lines.next()) {
    file.samples.push_back(read_row(*line, columns, header.node, origin));
  }
  if (file.samples.size() != header.rows) {
    throw InputError(fmt::format("{}: {} rows; the header announces {}: the file is truncated or was edited", origin,
                                 file.samples.size(), header.rows));
  }
  file.node = std::move(header.node);
  file.code = std::move(header.code);
  return file;
}

std::string format_samples(const SamplesFile& file) {
  std::string text = format_samples_header({file.node, file.code, file.samples.size()});
  std::vector<std::string_view> names;
  for (const SampleColumn& column : sample_columns()) {
    names.push_back(column.name);
  }
  text += fmt::format("{}\n", fmt::join(names, ","));
  for (std::size_t index = 0; index < file.samples.size(); ++index) {
    try {
      check_sample(file.samples[index], file.node);
      append_row(file.samples[index], text);
    } catch (const InputError& error) {
      throw InputError(fmt::format("sample {}: {}", index, error.what()));
    }
  }
  return text;
}

SamplesFile read_samples(const std::filesystem::path& path) { return parse_samples(read_text(path), path.string()); }

}  // namespace xstage
