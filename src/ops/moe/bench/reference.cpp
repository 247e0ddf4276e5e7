#include "ops/moe/bench/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "bench/normal_pattern.hpp"
#include "bench/sampling.hpp"

namespace xstage::moe {

namespace {

/// Rounds through fp32, in which kernels accumulate.
double round_to_bf16(double value) {
  return static_cast<double>(bench::from_bf16(bench::to_bf16(static_cast<float>(value))));
}

double rounded(double value, Rounding rounding) {
  return rounding == Rounding::as_kernels ? round_to_bf16(value) : value;
}

std::vector<double> to_double(std::span<const std::uint16_t> values) {
  std::vector<double> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](std::uint16_t bits) { return static_cast<double>(bench::from_bf16(bits)); });
  return result;
}

/// Calls add(lane, term) for the terms of a product. The caller keeps a sum for each lane, which lets the compiler
/// compute several lanes at once: a layer has hundreds of millions of terms for each token.
constexpr std::size_t lanes = 8;
template <typename Add>
void each_term(std::span<const double> values, std::span<const std::uint16_t> weights, const Add& add) {
  if (values.size() != weights.size()) {
    throw std::logic_error("a reference's row of weights is not as long as what it is multiplied with");
  }
  const auto term = [&](std::size_t index) {
    return values[index] * static_cast<double>(bench::from_bf16(weights[index]));
  };
  std::size_t index = 0;
  for (; index + lanes <= values.size(); index += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      add(lane, term(index + lane));
    }
  }
  for (; index < values.size(); ++index) {
    add(0, term(index));
  }
}

double sum_of(const std::array<double, lanes>& sums) { return std::accumulate(sums.begin(), sums.end(), 0.0); }

double multiply(std::span<const double> values, std::span<const std::uint16_t> weights) {
  std::array<double, lanes> sums{};
  each_term(values, weights, [&](std::size_t lane, double term) { sums[lane] += term; });
  return sum_of(sums);
}

double sum_of_squares(std::span<const double> values, std::span<const std::uint16_t> weights) {
  std::array<double, lanes> sums{};
  each_term(values, weights, [&](std::size_t lane, double term) { sums[lane] += term * term; });
  return sum_of(sums);
}

}  // namespace

double activate(double gate, double up, double weight, float clamp) {
  if (clamp > 0) {
    const auto limit = static_cast<double>(clamp);
    gate = std::min(gate, limit);
    up = std::clamp(up, -limit, limit);
  }
  return weight * (gate / (1 + std::exp(-gate))) * up;
}

std::vector<double> activated_row(const Problem& problem, std::span<const std::uint16_t> token, int expert,
                                  float router_weight, const ExpertWeights& weights, Rounding rounding) {
  const std::vector<double> input = to_double(token);
  std::vector<double> row(static_cast<std::size_t>(problem.intermediate));
  for (std::size_t column = 0; column < row.size(); ++column) {
    const auto weight_row = static_cast<std::int64_t>(column);
    const double gate = multiply(input, weights.gate(expert, weight_row));
    const double up = multiply(input, weights.up(expert, weight_row));
    row[column] = rounded(activate(gate, up, static_cast<double>(router_weight), problem.clamp), rounding);
  }
  return row;
}

ReferenceResult linear2_columns(std::span<const double> activated, int expert, std::span<const std::int64_t> columns,
                                const ExpertWeights& weights, Rounding rounding) {
  ReferenceResult result;
  for (const std::int64_t column : columns) {
    const std::span<const std::uint16_t> row = weights.linear2(expert, column);
    result.expected.push_back(rounded(multiply(activated, row), rounding));
    result.spread.push_back(std::sqrt(sum_of_squares(activated, row)));
  }
  return result;
}

namespace {

/// A summand of the sum over choices: one choice's row, or the sum of one rank's rows.
struct Summand {
  int rank = 0;
  std::vector<double> columns;
  int rows = 1;
};

/// Adds with the rounding of fp32.
void add(std::vector<double>& sums, const std::vector<double>& values, Rounding rounding) {
  for (std::size_t index = 0; index < sums.size(); ++index) {
    const double sum = sums[index] + values[index];
    sums[index] = rounding == Rounding::as_kernels ? static_cast<double>(static_cast<float>(sum)) : sum;
  }
}

void add_squares(std::vector<double>& squares, const std::vector<double>& values) {
  for (std::size_t index = 0; index < squares.size(); ++index) {
    squares[index] += values[index] * values[index];
  }
}

void round(std::vector<double>& values, Rounding rounding) {
  std::transform(values.begin(), values.end(), values.begin(),
                 [rounding](double value) { return rounded(value, rounding); });
}

}  // namespace

ReferenceResult layer_columns(const Problem& problem, const ReferenceToken& token,
                              std::span<const std::int64_t> columns, const ExpertWeights& weights, Combine combine,
                              Rounding rounding) {
  if (token.experts.size() != token.router_weights.size()) {
    throw std::logic_error("a reference needs one router weight for each choice");
  }
  ReferenceResult result{std::vector<double>(columns.size()), std::vector<double>(columns.size())};
  std::vector<Summand> summands;
  for (std::size_t choice = 0; choice < token.experts.size(); ++choice) {
    const int expert = token.experts[choice];
    if (expert == no_expert) {
      continue;
    }
    const std::vector<double> activated =
        activated_row(problem, token.token, expert, token.router_weights[choice], weights, rounding);
    const ReferenceResult row = linear2_columns(activated, expert, columns, weights, rounding);
    add_squares(result.spread, row.spread);
    add_squares(result.spread, row.expected);
    const int rank = expert / problem.experts_per_rank;
    const auto together = std::find_if(summands.begin(), summands.end(), [&](const Summand& summand) {
      return combine == Combine::partial_sums && rank != token.rank && summand.rank == rank;
    });
    if (together == summands.end()) {
      summands.push_back({rank, row.expected});
    } else {
      add(together->columns, row.expected, rounding);
      ++together->rows;
    }
  }
  for (Summand& summand : summands) {
    if (summand.rows > 1) {  // one row alone is bf16 already
      round(summand.columns, rounding);
      add_squares(result.spread, summand.columns);
    }
    add(result.expected, summand.columns, rounding);
  }
  round(result.expected, rounding);
  std::transform(result.spread.begin(), result.spread.end(), result.spread.begin(),
                 [](double squares) { return std::sqrt(squares); });
  return result;
}

std::vector<std::uint16_t> combine_rows(std::span<const std::uint16_t> rows, std::size_t choices) {
  if (choices == 0 || rows.size() % choices != 0) {
    throw std::logic_error("a reference of combine needs whole rows, at least one");
  }
  std::vector<std::uint16_t> result(rows.size() / choices);
  for (std::size_t column = 0; column < result.size(); ++column) {
    float sum = 0;
    for (std::size_t choice = 0; choice < choices; ++choice) {
      sum += bench::from_bf16(rows[choice * result.size() + column]);
    }
    result[column] = bench::to_bf16(sum);
  }
  return result;
}

double largest_error(std::span<const float> result, const ReferenceResult& reference) {
  if (result.size() != reference.expected.size()) {
    throw std::logic_error("a result has not as many columns as its reference");
  }
  double largest = 0;
  for (std::size_t column = 0; column < result.size(); ++column) {
    largest = std::max(largest, bench::error_in_roundings(static_cast<double>(result[column]),
                                                          reference.expected[column], reference.spread[column]));
  }
  return largest;
}

}  // namespace xstage::moe
