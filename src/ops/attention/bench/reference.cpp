#include "ops/attention/bench/reference.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "bench/sampling.hpp"

namespace xstage::bench {

namespace {

std::int64_t rows_of_an_owner(const AttentionCell& cell) { return (cell.problem.rows + cell.ranks - 1) / cell.ranks; }

/// exp(score - largest score) of every key.
std::vector<double> weights_of(std::span<const float> query, std::span<const float> keys) {
  const std::size_t head_dim = query.size();
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  std::vector<double> weights(keys.size() / head_dim);
  for (std::size_t key = 0; key < weights.size(); ++key) {
    double score = 0;
    for (std::size_t column = 0; column < head_dim; ++column) {
      score += static_cast<double>(query[column]) * static_cast<double>(keys[key * head_dim + column]);
    }
    weights[key] = score * scale;
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::transform(weights.begin(), weights.end(), weights.begin(),
                 [&](double score) { return std::exp(score - largest); });
  return weights;
}

}  // namespace

ReferenceRow attend(std::span<const float> query, std::span<const float> keys, std::span<const float> values) {
  const std::size_t head_dim = query.size();
  if (head_dim == 0 || keys.empty() || keys.size() % head_dim != 0 || values.size() != keys.size()) {
    throw std::logic_error("a reference of attention needs as many keys as values, at least one");
  }
  const std::vector<double> weights = weights_of(query, keys);
  ReferenceRow row{std::vector<double>(head_dim), std::vector<double>(head_dim)};
  double sum = 0;
  for (std::size_t key = 0; key < weights.size(); ++key) {
    sum += weights[key];
    for (std::size_t column = 0; column < head_dim; ++column) {
      const double term = weights[key] * static_cast<double>(values[key * head_dim + column]);
      row.expected[column] += term;
      row.spread[column] += term * term;
    }
  }
  for (std::size_t column = 0; column < head_dim; ++column) {
    row.expected[column] /= sum;
    row.spread[column] = std::sqrt(row.spread[column]) / sum;
  }
  return row;
}

std::int64_t keys_seen(const AttentionCell& cell, std::int64_t row) {
  return cell.problem.causal ? row + 1 : cell.problem.keys;
}

int key_head_of(const AttentionCell& cell, int head_of_rank) {
  return head_of_rank / (cell.problem.heads / cell.problem.kv_heads);
}

ResultPlace owner_of(const AttentionCell& cell, int rank, std::int64_t row, int head_of_rank) {
  const std::int64_t each = rows_of_an_owner(cell);
  return {static_cast<int>(row / each), row % each, rank * (cell.problem.heads / cell.ranks) + head_of_rank};
}

std::int64_t own_rows(const AttentionCell& cell, int rank) {
  const std::int64_t each = rows_of_an_owner(cell);
  return std::clamp<std::int64_t>(cell.problem.rows - each * rank, 0, each);
}

std::vector<std::int64_t> sampled_rows(const AttentionCell& cell, std::size_t count, std::uint64_t seed) {
  const std::vector<std::int64_t> random = sample(cell.problem.rows, count, seed);
  std::set<std::int64_t> rows(random.begin(), random.end());
  const std::int64_t each = rows_of_an_owner(cell);
  for (std::int64_t begin = each; begin < cell.problem.rows; begin += each) {
    rows.insert({begin - 1, begin});
  }
  return {rows.begin(), rows.end()};
}

double largest_error(std::span<const float> result, const ReferenceRow& reference) {
  double largest = 0;
  for (std::size_t column = 0; column < result.size(); ++column) {
    largest = std::max(largest, error_in_roundings(static_cast<double>(result[column]), reference.expected[column],
                                                   reference.spread[column]));
  }
  return largest;
}

}  // namespace xstage::bench
