#include "ops/attention/test/gpu/reference.hpp"

#include <cuda_fp16.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "bench/normal_pattern.hpp"
#include "bench/sampling.hpp"
#include "ops/attention/test/gpu/support.hpp"

namespace xstage::attention_test {

using attention::Destination;
using attention::Element;

namespace {

constexpr double most_pairs = 2e6;  // query-key pairs that one comparison evaluates: 0.3 s of one core
constexpr std::int64_t rows_of_a_task = 32;

/// The same as from_bits(to_bits(value)).
double rounded(double value, Element element) {
  const auto single = static_cast<float>(value);
  return static_cast<double>(element == Element::bf16 ? bench::from_bf16(bench::to_bf16(single))
                                                      : __half2float(__float2half_rn(single)));
}

double floor_of(double greatest_score) { return std::ldexp(1 + greatest_score, -20); }

std::string text_of(const RowPlace& place) {
  return fmt::format("rank {}, sequence {}, head {}, row {}", place.rank, place.sequence, place.head, place.row);
}

}  // namespace

std::uint16_t to_bits(float value, Element element) {
  return element == Element::bf16 ? bench::to_bf16(value) : static_cast<__half_raw>(__float2half_rn(value)).x;
}

float from_bits(std::uint16_t bits, Element element) {
  if (element == Element::bf16) {
    return bench::from_bf16(bits);
  }
  __half_raw raw;
  raw.x = bits;
  return __half2float(raw);
}

// ---- one head
// --------------------------------------------------------------------------------------------------------

KeyHead::KeyHead(const float* key, const float* value, std::int64_t rows, std::int64_t pitch, int head_dim)
    : rows_(rows),
      head_dim_(head_dim),
      key_(static_cast<std::size_t>(rows * head_dim)),
      value_(static_cast<std::size_t>(rows * head_dim)) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < head_dim; ++column) {
      key_[static_cast<std::size_t>(column * rows + row)] = static_cast<double>(key[row * pitch + column]);
      value_[static_cast<std::size_t>(row * head_dim + column)] = static_cast<double>(value[row * pitch + column]);
    }
  }
}

ReferenceRow KeyHead::attend(const float* query, std::int64_t seen, float scale, Element element) const {
  const auto count = static_cast<std::size_t>(seen);
  const auto columns = static_cast<std::size_t>(head_dim_);
  const double factor = scale != 0 ? static_cast<double>(scale) : 1 / std::sqrt(static_cast<double>(head_dim_));
  std::vector<double> scores(count, 0.0);
  for (std::size_t column = 0; column < columns; ++column) {
    const auto element_of_query = static_cast<double>(query[column]);
    const double* keys = key_.data() + column * static_cast<std::size_t>(rows_);
    for (std::size_t index = 0; index < count; ++index) {
      scores[index] += element_of_query * keys[index];
    }
  }
  const double greatest = factor * (factor > 0 ? *std::max_element(scores.begin(), scores.end())
                                               : *std::min_element(scores.begin(), scores.end()));
  const auto greatest_in_single = static_cast<double>(static_cast<float>(greatest));
  ReferenceRow row;
  row.exact.assign(columns, 0.0);
  row.framework.assign(columns, 0.0);
  double total = 0;
  double framework_total = 0;
  for (std::size_t index = 0; index < count; ++index) {
    const double score = factor * scores[index];
    row.greatest_score = std::max(row.greatest_score, std::abs(score));
    const double probability = std::exp(score - greatest);
    const double in_single = std::exp(static_cast<double>(static_cast<float>(score)) - greatest_in_single);
    const double framework_probability = rounded(in_single, element);
    total += probability;
    framework_total += in_single;
    const double* values = value_.data() + index * columns;
    for (std::size_t column = 0; column < columns; ++column) {
      row.exact[column] += probability * values[column];
      row.framework[column] += framework_probability * values[column];
    }
  }
  for (std::size_t column = 0; column < columns; ++column) {
    row.exact[column] /= total;
    row.framework[column] = rounded(row.framework[column] / framework_total, element);
  }
  row.log_sum_exp = greatest + std::log(total);
  return row;
}

// ---- errors
// ----------------------------------------------------------------------------------------------------------

void ErrorComparison::Errors::add(double error) {
  largest = std::max(largest, std::abs(error));
  squares += error * error;
}

void ErrorComparison::Errors::merge(const Errors& other) {
  largest = std::max(largest, other.largest);
  squares += other.squares;
}

void ErrorComparison::add(std::int64_t seen, const ReferenceRow& row, const std::vector<double>& result,
                          const RowPlace& place) {
  std::size_t power = 0;
  for (std::int64_t keys = seen; keys >= 4; keys /= 4) {
    ++power;
  }
  Group& group = groups_[power];
  group.greatest_score = std::max(group.greatest_score, row.greatest_score);
  for (std::size_t column = 0; column < result.size(); ++column) {
    // NaN is checked first: a sum with NaN is NaN, and no comparison with it is true.
    const bool is_number = std::isfinite(result[column]);
    const double error = is_number ? result[column] - row.exact[column] : std::numeric_limits<double>::max() / 4;
    if (std::abs(error) > group.result.largest) {
      group.worst = {place, column, result[column], row.exact[column]};
    }
    group.result.add(error);
    group.framework.add(row.framework[column] - row.exact[column]);
    group.squares += row.exact[column] * row.exact[column];
  }
  group.count += static_cast<std::int64_t>(result.size());
}

void ErrorComparison::add_log_sum_exp(const ReferenceRow& row, double result, const RowPlace& place) {
  // A few of the last places of the greatest score in fp32, and of the logarithm of a sum of that type.
  const double allowed = 4 * floor_of(row.greatest_score) + 1e-5;
  if (!(std::abs(result - row.log_sum_exp) <= allowed) && wrong_log_sum_exp_.empty()) {
    wrong_log_sum_exp_ = fmt::format("log_sum_exp of {}: {} instead of {}, allowed is a difference of {:.3g}",
                                     text_of(place), result, row.log_sum_exp, allowed);
  }
}

void ErrorComparison::merge(const ErrorComparison& other) {
  for (std::size_t power = 0; power < groups_.size(); ++power) {
    Group& group = groups_[power];
    const Group& more = other.groups_[power];
    if (more.result.largest > group.result.largest) {
      group.worst = more.worst;
    }
    group.result.merge(more.result);
    group.framework.merge(more.framework);
    group.squares += more.squares;
    group.greatest_score = std::max(group.greatest_score, more.greatest_score);
    group.count += more.count;
  }
  if (wrong_log_sum_exp_.empty()) {
    wrong_log_sum_exp_ = other.wrong_log_sum_exp_;
  }
}

std::string ErrorComparison::Group::complaint(std::size_t power) const {
  if (count == 0) {
    return "";
  }
  const auto root_mean = [this](double sum) { return std::sqrt(sum / static_cast<double>(count)); };
  const double floor = floor_of(greatest_score) * root_mean(squares);
  const double allowed_largest = 2 * framework.largest + floor;
  const double allowed_mean = 2 * root_mean(framework.squares) + floor;
  if (result.largest <= allowed_largest && root_mean(result.squares) <= allowed_mean) {
    return "";
  }
  return fmt::format(
      "rows that see {} to {} keys: largest error {:.3g}, allowed {:.3g}; root mean square error {:.3g}, allowed "
      "{:.3g}; "
      "the largest is that of {}, column {}: {} instead of {}",
      std::int64_t{1} << (2 * power), (std::int64_t{4} << (2 * power)) - 1, result.largest, allowed_largest,
      root_mean(result.squares), allowed_mean, text_of(worst.place), worst.column, worst.result, worst.exact);
}

std::string ErrorComparison::complaint() const {
  for (std::size_t power = 0; power < groups_.size(); ++power) {
    const std::string said = groups_[power].complaint(power);
    if (!said.empty()) {
      return said;
    }
  }
  return wrong_log_sum_exp_;
}

// ---- a call
// ----------------------------------------------------------------------------------------------------------

namespace {

/// Results of a call on all ranks, copied to the host.
struct HostResults {
  std::vector<std::vector<std::uint16_t>> result;  // [rank]
  std::vector<std::vector<float>> log_sum_exp;     // [rank], empty if not wanted
};

HostResults read(const Case& which, const Call& call) {
  HostResults results;
  for (int rank = 0; rank < which.ranks; ++rank) {
    results.result.push_back(call.read_result(rank));
    results.log_sum_exp.push_back(which.log_sum_exp ? call.read_log_sum_exp(rank) : std::vector<float>());
  }
  return results;
}

/// Every element that is written is a number; of a twin the heads of other ranks stay as they were.
std::string complaint_about_numbers(const Case& which, const HostResults& results) {
  const std::uint16_t exponent = which.problem.element == Element::bf16 ? 0x7F80U : 0x7C00U;
  for (int rank = 0; rank < which.ranks; ++rank) {
    const std::vector<std::uint16_t>& result = results.result[static_cast<std::size_t>(rank)];
    const auto is_number = [exponent](std::uint16_t bits) { return (bits & exponent) != exponent; };
    const std::int64_t numbers = std::count_if(result.begin(), result.end(), is_number);
    if (numbers != which.written_elements(rank)) {
      const auto first = std::find_if_not(result.begin(), result.end(), is_number) - result.begin();
      return fmt::format(
          "rank {}: {} of {} elements are numbers, {} should be; the first that is none is in row {}, column {} of its "
          "result",
          rank, numbers, result.size(), which.written_elements(rank), first / which.result_columns(),
          first % which.result_columns());
    }
  }
  return "";
}

/// Some neighbouring rows of the sample, of one head.
struct Task {
  int rank;
  std::int64_t sequence;
  int head;
  std::size_t first_row;  // index in the sample
};

class CallComparison {
 public:
  CallComparison(const Case& which, const Call& call, const HostResults& results)
      : which_(which), call_(call), results_(results) {
    const attention::Problem& problem = which.problem;
    const double pairs_of_a_row = static_cast<double>(problem.keys * problem.sequences) * problem.heads;
    const double rows = std::max(16.0, most_pairs / pairs_of_a_row);
    rows_ = bench::sample(problem.rows, static_cast<std::size_t>(rows), static_cast<std::uint64_t>(problem.rows));
    for (int rank = 0; rank < which.ranks; ++rank) {
      for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
        for (int head = 0; head < which.heads_each(); ++head) {
          for (std::size_t first = 0; first < rows_.size(); first += rows_of_a_task) {
            tasks_.push_back({rank, sequence, head, first});
          }
        }
      }
    }
  }

  /// Runs the comparison on all cores.
  [[nodiscard]] ErrorComparison run() const {
    const std::size_t threads = std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), tasks_.size());
    std::vector<ErrorComparison> parts(threads);
    std::vector<std::thread> workers;
    std::atomic<std::size_t> next = 0;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      workers.emplace_back([this, &next, &part = parts[thread]] {
        for (std::size_t task = next++; task < tasks_.size(); task = next++) {
          compare(tasks_[task], part);
        }
      });
    }
    ErrorComparison all;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      workers[thread].join();
      all.merge(parts[thread]);
    }
    return all;
  }

 private:
  void compare(const Task& task, ErrorComparison& errors) const {
    const attention::Problem& problem = which_.problem;
    const HostOperands& host = call_.host(task.rank);
    const std::int64_t key_pitch = std::int64_t{which_.kv_heads_each()} * problem.head_dim;
    const std::int64_t query_pitch = std::int64_t{which_.heads_each()} * problem.head_dim;
    const int key_head = task.head / (which_.heads_each() / which_.kv_heads_each());
    const std::int64_t keys = task.sequence * problem.keys * key_pitch + std::int64_t{key_head} * problem.head_dim;
    const std::size_t end = std::min(rows_.size(), task.first_row + rows_of_a_task);
    const std::int64_t most_seen = problem.causal ? rows_[end - 1] + 1 : problem.keys;
    const KeyHead head(host.key.data() + keys, host.value.data() + keys, most_seen, key_pitch, problem.head_dim);
    for (std::size_t index = task.first_row; index < end; ++index) {
      const std::int64_t row = rows_[index];
      const float* query = host.query.data() + (task.sequence * problem.rows + row) * query_pitch +
                           std::int64_t{task.head} * problem.head_dim;
      const std::int64_t seen = problem.causal ? row + 1 : problem.keys;
      const RowPlace place{task.rank, task.sequence, task.head, row};
      const ReferenceRow expected = head.attend(query, seen, problem.scale, problem.element);
      errors.add(seen, expected, result_of(place), place);
      if (which_.log_sum_exp) {
        errors.add_log_sum_exp(expected, log_sum_exp_of(place), place);
      }
    }
  }

  [[nodiscard]] std::vector<double> result_of(const RowPlace& place) const {
    const Case::Place there = which_.place(place.rank, place.sequence, place.row, place.head);
    const std::uint16_t* bits = results_.result[static_cast<std::size_t>(there.holder)].data() + there.offset;
    std::vector<double> values;
    for (int column = 0; column < which_.problem.head_dim; ++column) {
      values.push_back(static_cast<double>(from_bits(bits[column], which_.problem.element)));
    }
    return values;
  }

  [[nodiscard]] double log_sum_exp_of(const RowPlace& place) const {
    const std::int64_t line = place.sequence * which_.heads_each() + place.head;
    return static_cast<double>(results_.log_sum_exp[static_cast<std::size_t>(place.rank)]
                                                   [static_cast<std::size_t>(line * which_.problem.rows + place.row)]);
  }

  const Case& which_;
  const Call& call_;
  const HostResults& results_;
  std::vector<std::int64_t> rows_;  // the sample, of every head
  std::vector<Task> tasks_;
};

}  // namespace

std::string complaint_about(const Case& which, const Call& call) {
  const HostResults results = read(which, call);
  const std::string no_numbers = complaint_about_numbers(which, results);
  if (!no_numbers.empty()) {
    return no_numbers;
  }
  const std::string wrong = CallComparison(which, call, results).run().complaint();
  if (!wrong.empty()) {
    return wrong;
  }
  return call.guards_are_untouched() ? "" : "what lies around a result has been written";
}

}  // namespace xstage::attention_test
