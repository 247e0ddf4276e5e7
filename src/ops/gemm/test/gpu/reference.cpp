#include "ops/gemm/test/gpu/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/normal_pattern.hpp"
#include "ops/gemm/bench/sampled_result.hpp"

namespace xstage::gemm_test {

namespace {

/// An element in double, and the sum of the magnitudes of the partial sums that ranks exchange for it.
struct Expected {
  double value = 0;
  double partials = 0;
};

double activated(gemm::Activation activation, double value) {
  switch (activation) {
    case gemm::Activation::gelu:
      return 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
    case gemm::Activation::gelu_tanh:
      return 0.5 * value * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (value + 0.044715 * value * value * value)));
    case gemm::Activation::silu:
      return value / (1 + std::exp(-value));
    case gemm::Activation::none:
      break;
  }
  return value;
}

/// Computes results block by block, with as many neighbouring columns as an epilogue reads together.
class Reference {
 public:
  Reference(const bench::GemmCell& cell, const Call& call)
      : problem_(cell.problem),
        cell_(cell),
        call_(call),
        depth_(static_cast<std::size_t>(bench::depth_of_rank(cell))) {}

  /// Columns of a result that are computed together.
  [[nodiscard]] std::int64_t block_columns() const {
    return problem_.operation == gemm::Operation::all_to_all ? problem_.head_dim : 8;
  }

  [[nodiscard]] std::vector<Expected> block(int rank, std::size_t part, std::int64_t row, std::int64_t number) const {
    const std::int64_t columns = block_columns() * (problem_.gated ? 2 : 1);
    std::vector<Expected> values;
    for (std::int64_t column = number * columns; column < (number + 1) * columns; ++column) {
      values.push_back(sum(rank, part, row, column));
    }
    if (problem_.operation == gemm::Operation::all_to_all) {
      apply_head_steps(values, rank, part, row);
    }
    if (problem_.gated) {
      return gated(values);
    }
    for (Expected& expected : values) {
      expected.value = activated(problem_.activation, expected.value);
    }
    return values;
  }

 private:
  [[nodiscard]] Expected sum(int rank, std::size_t part, std::int64_t row, std::int64_t column) const {
    const std::vector<bench::Product> products = bench::products_of(cell_, rank, part, row, column);
    Expected expected;
    for (const bench::Product& product : products) {
      const float* a = call_.host(product.a_rank).a.data() + static_cast<std::size_t>(product.a_row) * depth_;
      const float* b = call_.host(product.b_rank).b.data() + static_cast<std::size_t>(product.b_row) * depth_;
      double partial = 0;
      for (std::size_t index = 0; index < depth_; ++index) {
        partial += static_cast<double>(a[index]) * static_cast<double>(b[index]);
      }
      expected.value += partial;
      const bool rounded = products.size() > 1 && !problem_.fp32_partials;  // on the way to the rank that adds up
      expected.partials += rounded ? std::abs(partial) : 0;
    }
    if (problem_.bias) {
      const bench::Product& first = products.front();
      expected.value += static_cast<double>(call_.host(first.b_rank).bias[static_cast<std::size_t>(first.b_row)]);
    }
    return expected;
  }

  void apply_head_steps(std::vector<Expected>& head, int rank, std::size_t part, std::int64_t position) const {
    const HostWeights weights = weights_of(rank, part, position);
    if (problem_.parts[part].norm) {
      double squares = 0;
      for (const Expected& expected : head) {
        squares += expected.value * expected.value;
      }
      const double scale =
          1 / std::sqrt(squares / static_cast<double>(head.size()) + static_cast<double>(problem_.norm_epsilon));
      for (std::size_t column = 0; column < head.size(); ++column) {
        head[column].value *= scale * static_cast<double>(weights.norm[column]);
      }
    }
    if (problem_.parts[part].rotary) {
      const std::size_t pairs = head.size() / 2;
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        const auto cosine = static_cast<double>(weights.rotary[2 * pair]);
        const auto sine = static_cast<double>(weights.rotary[2 * pair + 1]);
        const double low = head[pair].value;
        const double high = head[pair + pairs].value;
        head[pair].value = low * cosine - high * sine;
        head[pair + pairs].value = high * cosine + low * sine;
      }
    }
  }

  struct HostWeights {
    const float* norm;
    const float* rotary;
  };
  [[nodiscard]] HostWeights weights_of(int rank, std::size_t part, std::int64_t position) const {
    std::size_t norm_row = 0;
    for (std::size_t before = 0; before < part; ++before) {
      norm_row += problem_.parts[before].norm ? 1U : 0U;
    }
    const auto head_dim = static_cast<std::size_t>(problem_.head_dim);
    return {call_.host(rank).norm_weight.data() + norm_row * head_dim,
            call_.host(rank).rotary.data() + static_cast<std::size_t>(position) * head_dim};
  }

  [[nodiscard]] std::vector<Expected> gated(const std::vector<Expected>& pairs) const {
    std::vector<Expected> results(pairs.size() / 2);
    for (std::size_t column = 0; column < results.size(); ++column) {
      const std::size_t gate = column / 8 * 16 + column % 8;
      results[column].value = activated(problem_.activation, pairs[gate].value) * pairs[gate + 8].value;
    }
    return results;
  }

  const gemm::Problem& problem_;
  const bench::GemmCell& cell_;
  const Call& call_;
  std::size_t depth_;
};

/// One rank's part against the reference; empty: right.
std::string complaint_about_part(const Case& which, const Call& call, int rank, std::size_t part) {
  const bench::ResultShape shape = gemm_test::result_shapes(which.cell, rank)[part];
  const std::vector<std::uint16_t> result = call.read_result(rank, part);
  const auto is_number = [](std::uint16_t bits) { return (bits & 0x7F80U) != 0x7F80U; };
  const auto unwritten = std::find_if_not(result.begin(), result.end(), is_number);
  if (unwritten != result.end()) {
    const auto place = unwritten - result.begin();
    return fmt::format("rank {} part {}: {} of {} elements are no numbers, the first in row {}, column {}", rank, part,
                       result.end() - unwritten - std::count_if(unwritten, result.end(), is_number), result.size(),
                       place / shape.columns, place % shape.columns);
  }
  const Reference reference(which.cell, call);
  const std::int64_t width = reference.block_columns();
  const std::size_t blocks = static_cast<std::size_t>(std::clamp<std::int64_t>(64 / width, 3, 8));
  const auto seed = static_cast<std::uint64_t>(rank) * 16 + part;
  struct Comparison {
    std::int64_t row;
    std::int64_t column;
    double result;
    Expected expected;
  };
  std::vector<Comparison> comparisons;
  double squares = 0;
  for (const std::int64_t row : bench::sample(shape.rows, 16, seed)) {
    for (const std::int64_t block :
         bench::sample(shape.columns / width, blocks, seed + 1000 + static_cast<std::uint64_t>(row))) {
      const std::vector<Expected> expected = reference.block(rank, part, row, block);
      for (std::int64_t column = 0; column < width; ++column) {
        const Expected& one = expected[static_cast<std::size_t>(column)];
        const std::int64_t place = row * shape.columns + block * width + column;
        comparisons.push_back({row, block * width + column,
                               static_cast<double>(bench::from_bf16(result[static_cast<std::size_t>(place)])), one});
        squares += one.value * one.value;
      }
    }
  }
  const double scale = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(comparisons.size(), 1)));
  std::size_t wrong = 0;
  std::string first;
  for (const Comparison& one : comparisons) {
    const double allowed =
        std::ldexp(std::abs(one.expected.value) + one.expected.partials, -7) + std::ldexp(scale, -14);
    if (!(std::abs(one.result - one.expected.value) <= allowed) && wrong++ == 0) {
      first = fmt::format("row {}, column {}: {} instead of {}, allowed is a difference of {}", one.row, one.column,
                          one.result, one.expected.value, allowed);
    }
  }
  return wrong == 0 ? ""
                    : fmt::format("rank {} part {}: {} of {} sampled elements are wrong, the first in {}", rank, part,
                                  wrong, comparisons.size(), first);
}

}  // namespace

std::string complaint_about(const Case& which, const Call& call) {
  for (int rank = 0; rank < which.cell.ranks; ++rank) {
    for (std::size_t part = 0; part < gemm_test::result_shapes(which.cell, rank).size(); ++part) {
      const std::string complaint = complaint_about_part(which, call, rank, part);
      if (!complaint.empty()) {
        return complaint;
      }
    }
    if (which.cell.problem.operation == gemm::Operation::all_reduce &&
        call.read_result(rank, 0) != call.read_result(0, 0)) {
      return fmt::format("ranks 0 and {} have different sums", rank);
    }
  }
  return call.guards_are_untouched() ? "" : "the rows around a result have been written";
}

}  // namespace xstage::gemm_test
