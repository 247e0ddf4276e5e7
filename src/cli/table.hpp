#pragma once
/// Tables for people: right-aligned numbers under headings that say their units, words left-aligned.

#include <ostream>
#include <string>
#include <vector>

namespace xstage::cli {

class Table {
 public:
  /// A heading may have several lines ("issue time\n(microseconds)").
  explicit Table(const std::vector<std::string>& headings);

  /// As many cells as headings; throws std::logic_error otherwise.
  void add_row(std::vector<std::string> cells);

  /// The first `count` columns hold words and are left-aligned; the rest are right-aligned.
  void left_align(std::size_t count) { left_aligned_ = count; }

  void print(std::ostream& out, std::string_view indent = "  ") const;

  /// For tables of any length: headings at once, then each row as it comes. The columns are as wide as their headings;
  /// a cell that is wider moves the rest of its line.
  void print_headings(std::ostream& out, std::string_view indent = "  ") const;
  void print_row(std::ostream& out, const std::vector<std::string>& cells, std::string_view indent = "  ") const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  [[nodiscard]] std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<std::vector<std::string>> heading_lines_;  ///< by column
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_aligned_ = 0;
};

/// "name    value" pairs, one a line.
class Listing {
 public:
  void add(std::string name, std::string value) { entries_.push_back({std::move(name), std::move(value)}); }
  void print(std::ostream& out, std::string_view indent = "  ") const;

 private:
  struct Entry {
    std::string name;
    std::string value;
  };
  std::vector<Entry> entries_;
};

}  // namespace xstage::cli
