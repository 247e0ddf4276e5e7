#pragma once
// Measured rows of a cell, without any GPU.

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "bench/row.hpp"

namespace xstage::bench {

inline std::vector<double> steady(double microseconds) { return std::vector<double>(7, microseconds); }

/// A row for each variant, with these trials.
inline std::vector<Row> measured_rows(std::initializer_list<std::pair<const char*, std::vector<double>>> variants) {
  std::vector<Row> rows;
  for (const auto& [variant, trials_us] : variants) {
    Row row;
    row.head.variant = variant;
    row.times.trials_us = trials_us;
    rows.push_back(row);
  }
  return rows;
}

inline double ratio(const Row& row, const std::string& name) { return ratio_of(row, name)->ratio; }

inline bool has_any(const Row& row, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (row.figures.contains(name)) {
      return true;
    }
  }
  return false;
}

}  // namespace xstage::bench
