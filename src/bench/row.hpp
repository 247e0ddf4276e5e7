#pragma once
// A row of a result file of any benchmark: one variant of one cell. A cell is what a benchmark measures in several
// ways, its variants.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/row_fields.hpp"
#include "bench/statistics.hpp"

namespace xstage::bench {

/// The part of a row that is known before anything is measured.
struct RowHead {
  Json key;           // the fields of its cell, in the order of the file; with the variant they tell two rows apart
  std::string shape;  // the same as a table shows it
  std::string variant;
  Json plans = Json::object();  // fields of the row: `plan`, and others by their names; empty: no kernel of ours
  bool in_readme = false;       // it has a sustained figure where these are asked for
};

/// A cell before anything is measured.
struct CellHead {
  std::string name;  // "gemm_reduce_scatter 8192x8192x8192 on 2 ranks"
  std::vector<RowHead> rows;
};

/// The times of one variant, in microseconds of one call.
struct Times {
  int replays = 0;  // calls in one graph
  double eager_us = 0;
  std::vector<double> trials_us;       // the maximum over ranks
  std::optional<double> one_shot_us;   // one call from rest, until its results are complete on every rank
  std::optional<double> sustained_us;  // replays back to back, without rests
};

struct Row {
  RowHead head;
  Times times;
  std::string l2;                       // how its inputs treat L2
  Json figures = Json::object();        // what follows from the times: rates, ratios, predictions
  std::optional<double> largest_error;  // --verify: in units of bf16's rounding
  std::string remark;                   // below its line in a table: what its spans say
};

/// Median of the trials.
[[nodiscard]] double microseconds(const Row& row);

/// The row of a variant among those of one cell; null if it has none.
[[nodiscard]] const Row* find_variant(const std::vector<Row>& rows_of_cell, std::string_view variant);
[[nodiscard]] Row* find_variant(std::vector<Row>& rows_of_cell, std::string_view variant);

/// The sum of these variants' times for each trial; empty if one of them is missing.
[[nodiscard]] std::optional<std::vector<double>> sum_of_trials(const std::vector<Row>& rows_of_cell,
                                                               const std::vector<std::string_view>& variants);

// ---- figures
// ---------------------------------------------------------------------------------------------------------

/// Adds the fields `NAME`, `NAME_low`, `NAME_high`.
void add_ratio(Row& row, const std::string& name, const PairedRatio& ratio);
/// Adds the ratio `NAME` of the row's trials to those of another row; does nothing if that is null.
void add_ratio(Row& row, const std::string& name, const Row* reference);
/// NaN where an end of the interval is not known; none if the row has no such ratio.
[[nodiscard]] std::optional<PairedRatio> ratio_of(const Row& row, const std::string& name);

/// Adds `tflops`, for `operations` floating-point operations in a call.
void add_tflops(Row& row, double operations);
/// Adds `remote_bytes` of a call, and `gb_per_s`; 1 GB/s = 1e9 bytes/s.
void add_exchange_rate(Row& row, std::int64_t remote_bytes);

/// Adds `ceiling`, the largest possible gain of overlapping over one after the other, (computing + communicating) / max
/// of both, and `reached`, max of both over the row's time; 1 is the ceiling.
void add_ceiling(Row& row, double computing_us, double communicating_us);
inline constexpr const char* ceiling_text =
    "ceiling: what overlapping could gain at most on one after the other, (computing + communicating) / (the longer of "
    "both); reached: the longer of both / this row's time, 1 is the ceiling; ";

// ---- files and tables
// ------------------------------------------------------------------------------------------------

[[nodiscard]] Json row_json(const Row& row);

/// Throws std::logic_error if two rows have the same key and variant.
[[nodiscard]] Json rows_json(const std::vector<Row>& rows);

/// {"rows": [...]}: the parts of all rows that are known before anything is measured.
[[nodiscard]] Json list_json(const std::vector<CellHead>& cells);

[[nodiscard]] std::string table_heading(int ranks);
/// The row, and below it its remark if it has one.
[[nodiscard]] std::string table_lines(const Row& row);

}  // namespace xstage::bench
