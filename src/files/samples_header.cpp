#include "files/samples_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "files/json_reader.hpp"
#include "files/node_json.hpp"
#include "xstage/files.hpp"

namespace xstage::files {
namespace {

constexpr std::string_view device_key = "device ";
constexpr std::string_view code_key = "code";                                        // the one key that may be missing
constexpr std::size_t most_header_lines = std::size(node_texts) + most_devices + 3;  // and schema, code, rows

const NodeText* text_with_key(std::string_view key) {
  const auto* found =
      std::find_if(std::begin(node_texts), std::end(node_texts), [&](const NodeText& text) { return text.key == key; });
  return found == std::end(node_texts) ? nullptr : found;
}

}  // namespace

void SamplesHeaderReader::read(const TextLine& line) {
  const std::size_t colon = line.text.find(':');
  if (!line.text.starts_with("# ") || colon == std::string_view::npos) {
    fail_at_line(origin_, line.number, fmt::format("{}: header lines read \"# key: value\"", quote(line.text)));
  }
  const std::string_view key = line.text.substr(2, colon - 2);
  std::string_view value = line.text.substr(colon + 1);
  value.remove_prefix(value.starts_with(' ') ? 1 : 0);
  refuse_second(line, key);
  if (keys_.size() == 1) {
    if (key != "schema") {
      fail_at_line(origin_, line.number,
                   fmt::format("{}: the first line must be \"# schema: {}\"", quote(line.text), samples_schema));
    }
    read_schema(line, value);
  } else if (key == "rows") {
    read_rows(line, value);
  } else if (key.starts_with(device_key)) {
    read_device(line, key, value);
  } else {
    read_text(line, key, value);
  }
}

void SamplesHeaderReader::refuse_second(const TextLine& line, std::string_view key) {
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
    fail_at_line(origin_, line.number, fmt::format("{}: header key appears twice", quote(key)));
  }
  if (keys_.size() == most_header_lines) {
    fail_at_line(origin_, line.number, fmt::format("more than {} header lines", most_header_lines));
  }
  keys_.push_back(key);
}

void SamplesHeaderReader::read_schema(const TextLine& line, std::string_view value) {
  if (value != samples_schema) {
    fail_at_line(origin_, line.number, fmt::format("schema: {}: must be \"{}\"", quote(value), samples_schema));
  }
}

void SamplesHeaderReader::read_rows(const TextLine& line, std::string_view value) {
  const CsvCell cell(value, "rows", origin_, line.number);
  const std::int64_t rows = cell.integer();
  if (rows < 0) {
    cell.fail("must be at least 0");
  }
  header_.rows = static_cast<std::size_t>(rows);
}

void SamplesHeaderReader::read_device(const TextLine& line, std::string_view key, std::string_view value) {
  const std::size_t expected = header_.node.devices.size();
  if (key != fmt::format("device {}", expected)) {
    fail_at_line(origin_, line.number,
                 fmt::format("{}: devices are numbered in order; expected \"device {}\"", quote(key), expected));
  }
  const std::string place = fmt::format("{}: line {}: {}", origin_, line.number, key);
  const nlohmann::json device = parse_json(value, place);
  header_.node.devices.push_back(files::read_device(JsonValue(device, place, "")));
}

void SamplesHeaderReader::read_text(const TextLine& line, std::string_view key, std::string_view value) {
  const NodeText* const text = text_with_key(key);
  if (text == nullptr && key != code_key) {
    fail_at_line(origin_, line.number, fmt::format("{}: unknown header key", quote(key)));
  }
  if (!is_one_line(value)) {
    fail_at_line(origin_, line.number, fmt::format("{}: {}: {}", key, quote(value), one_line_rule));
  }
  (text == nullptr ? header_.code : header_.node.*text->member) = std::string(value);
}

SamplesHeader SamplesHeaderReader::finish() const {
  std::vector<std::string_view> wanted{"schema", "rows", "device 0"};
  for (const NodeText& text : node_texts) {
    wanted.push_back(text.key);
  }
  for (const std::string_view key : wanted) {
    if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) {
      throw InputError(
          fmt::format("{}: header: no line \"# {}: ...\"; required keys: {}", origin_, key, fmt::join(wanted, ", ")));
    }
  }
  check_node(header_.node);
  return header_;
}

std::string format_samples_header(const SamplesHeader& header) {
  check_node(header.node);
  std::string text = fmt::format("# schema: {}\n", samples_schema);
  for (const NodeText& line : node_texts) {
    text += fmt::format("# {}: {}\n", line.key, header.node.*line.member);
  }
  if (!header.code.empty()) {
    if (!is_one_line(header.code)) {
      throw InputError(fmt::format("{}: {}: {}", code_key, quote(header.code), one_line_rule));
    }
    text += fmt::format("# {}: {}\n", code_key, header.code);
  }
  for (std::size_t index = 0; index < header.node.devices.size(); ++index) {
    text += fmt::format("# device {}: {}\n", index, write_device(header.node.devices[index]).dump());
  }
  return text + fmt::format("# rows: {}\n", header.rows);
}

}  // namespace xstage::files
