#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace xstage::cli {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char character : text) {
    if (character == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += character;
    }
  }
  return lines;
}

std::string without_trailing_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

Table::Table(const std::vector<std::string>& headings) {
  std::size_t height = 0;
  for (const std::string& heading : headings) {
    heading_lines_.push_back(lines_of(heading));
    height = std::max(height, heading_lines_.back().size());
  }
  for (std::vector<std::string>& lines : heading_lines_) {
    lines.resize(height);
  }
}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != heading_lines_.size()) {
    throw std::logic_error(fmt::format("table: {} cells under {} headings", cells.size(), heading_lines_.size()));
  }
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(heading_lines_.size(), 0);
  for (std::size_t column = 0; column < widths.size(); ++column) {
    for (const std::string& heading : heading_lines_[column]) {
      widths[column] = std::max(widths[column], heading.size());
    }
    for (const std::vector<std::string>& row : rows_) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  return widths;
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t column = 0; column < cells.size(); ++column) {
    text += column == 0 ? "" : "  ";
    text += column < left_aligned_ ? fmt::format("{:<{}}", cells[column], widths[column])
                                   : fmt::format("{:>{}}", cells[column], widths[column]);
  }
  return without_trailing_blanks(text);
}

void Table::print_headings(std::ostream& out, std::string_view indent) const {
  const std::vector<std::size_t> column_widths = widths();
  const std::size_t height = heading_lines_.empty() ? 0 : heading_lines_.front().size();
  for (std::size_t row = 0; row < height; ++row) {
    std::vector<std::string> cells;
    for (const std::vector<std::string>& heading : heading_lines_) {
      cells.push_back(heading[row]);
    }
    out << indent << line(cells, column_widths) << '\n';
  }
  std::vector<std::string> rules;
  rules.reserve(column_widths.size());
  for (const std::size_t width : column_widths) {
    rules.emplace_back(width, '-');
  }
  out << indent << line(rules, column_widths) << '\n';
}

void Table::print_row(std::ostream& out, const std::vector<std::string>& cells, std::string_view indent) const {
  out << indent << line(cells, widths()) << '\n';
}

void Table::print(std::ostream& out, std::string_view indent) const {
  print_headings(out, indent);
  const std::vector<std::size_t> column_widths = widths();
  for (const std::vector<std::string>& row : rows_) {
    out << indent << line(row, column_widths) << '\n';
  }
}

void Listing::print(std::ostream& out, std::string_view indent) const {
  std::size_t width = 0;
  for (const Entry& entry : entries_) {
    width = std::max(width, entry.name.size());
  }
  for (const Entry& entry : entries_) {
    out << indent << fmt::format("{:<{}}  {}", entry.name, width, entry.value) << '\n';
  }
}

}  // namespace xstage::cli
