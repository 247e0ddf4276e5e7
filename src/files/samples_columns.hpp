#pragma once
/// The columns of a samples file: one table for their names, reading and writing, and the rules of a row.

#include <span>
#include <string>
#include <string_view>

#include "files/csv.hpp"
#include "xstage/node.hpp"

namespace xstage::files {

struct SampleColumn {
  std::string_view name;
  void (*read)(const CsvCell& cell, BurstSample& sample);
  std::string (*write)(const BurstSample& sample);
};

/// All columns, in the order in which they are written.
[[nodiscard]] std::span<const SampleColumn> sample_columns();

/// Checks the rules that a fit relies on: the experiment is possible on the node, times and sizes are in range,
/// required numbers are present. Throws InputError with column, value and rule.
void check_sample(const BurstSample& sample, const NodeDescription& node);

}  // namespace xstage::files
