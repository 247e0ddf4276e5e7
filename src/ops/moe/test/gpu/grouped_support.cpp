#include "ops/moe/test/gpu/grouped_support.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>

#include "bench/normal_pattern.hpp"
#include "bench/random_bits.hpp"
#include "bench/sampling.hpp"
#include "ops/moe/bench/reference.hpp"
#include "ops/moe/packing.hpp"
#include "ops/moe/tiles.hpp"

namespace xstage::moe_test {

namespace {

constexpr std::uint16_t not_a_number = 0xFFFF;
constexpr std::int32_t block_rows = kernels::grouped_block_rows;

int multiprocessors() {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "asking for multiprocessors");
  return count;
}

}  // namespace

std::string GroupedCase::text() const {
  return fmt::format(
      "columns {} depth {} {} clamp {} tile {} cluster {} pairs {} group {} stages {} staging {} "
      "CTAs {}, counts {}",
      shape.columns, shape.depth, shape.gated ? "gated" : "plain", clamp, plan.tile_columns, plan.cluster,
      plan.pair_blocks, plan.group, plan.stages, plan.staging, plan.issuers, fmt::join(counts, " "));
}

GroupedLayer::GroupedLayer(const GroupedCase& which, std::uint64_t seed) : case_(which), seed_(seed) {
  case_.shape.experts = static_cast<std::int32_t>(which.counts.size());
  case_.shape.expected_rows = std::accumulate(which.counts.begin(), which.counts.end(), std::int64_t{0});
  case_.plan = kernels::complete_grouped_plan(case_.shape, which.plan, multiprocessors());
  make_rows();
  most_blocks_ = std::max(first_block_.back(), 1);
  output_columns_ = case_.shape.gated ? case_.shape.columns / 2 : case_.shape.columns;
  make_weights();
  const std::size_t output =
      static_cast<std::size_t>(most_blocks_ + 2) * block_rows * static_cast<std::size_t>(output_columns_);
  output_there_ = cuda::DeviceBuffer(0, output * 2, "an output");
  rows_there_ = upload(rows_, "rows");
  weights_there_ = upload(weights_, "weights");
  counts_there_ = upload(case_.counts, "counts");
  first_block_there_ = upload(first_block_, "first blocks");
  router_weights_there_ = upload(router_weights_, "router weights");
  make_gemm();
  poison();
}

void GroupedLayer::set_counts(const std::vector<std::int32_t>& counts) {
  case_.counts = counts;
  ++seed_;
  make_rows();
  copy_to_gpu(rows_there_, rows_);
  copy_to_gpu(router_weights_there_, router_weights_);
  copy_to_gpu(counts_there_, case_.counts);
  copy_to_gpu(first_block_there_, first_block_);
  poison();
}

void GroupedLayer::poison() const {
  cuda::check(cudaMemset(output_there_.as<void>(), 0xFF, output_there_.bytes()), "poisoning an output");
  // Copies and memsets may return before they are done, and other streams do not wait for them.
  cuda::check(cudaDeviceSynchronize(), "poisoning an output");
}

std::vector<std::uint16_t> GroupedLayer::read_output() const {
  return output_there_.read<std::uint16_t>(output_there_.bytes() / 2);
}

std::vector<std::uint16_t> GroupedLayer::results() const {
  const std::vector<std::uint16_t> output = read_output();
  const auto columns = static_cast<std::size_t>(output_columns_);
  std::vector<std::uint16_t> rows;
  for (std::int32_t expert = 0; expert < case_.shape.experts; ++expert) {
    const auto first = output.begin() + static_cast<std::ptrdiff_t>(guard() + begin(expert) * columns);
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>((end(expert) - begin(expert)) * columns));
  }
  return rows;
}

std::string GroupedLayer::complaint() const {
  const std::vector<std::uint16_t> output = read_output();
  std::string text = complaint_about_places(output);
  return text.empty() ? complaint_about_values(output) : text;
}

void GroupedLayer::make_rows() {
  const std::int32_t experts = case_.shape.experts;
  first_block_.resize(static_cast<std::size_t>(experts) + 1);
  schedule::MoeBlocks::sum(case_.counts.data(), experts, block_rows, first_block_.data());
  const auto rows = static_cast<std::size_t>(std::max(first_block_.back(), 1)) * block_rows;
  const auto depth = static_cast<std::size_t>(case_.shape.depth);
  rows_ = bench::normal_pattern(rows * depth, 1.0, seed_);
  router_weights_.assign(rows, std::nanf(""));
  for (std::int32_t expert = 0; expert < experts; ++expert) {
    for (std::size_t row = begin(expert); row < begin(expert + 1); ++row) {
      if (row < end(expert)) {
        router_weights_[row] = static_cast<float>(bench::random_bits(seed_ + 1, row) % 2001U) / 1000.0F - 0.5F;
      } else {
        std::fill_n(rows_.begin() + static_cast<std::ptrdiff_t>(row * depth), depth, not_a_number);
      }
    }
  }
}

void GroupedLayer::make_weights() {
  const auto depth = static_cast<std::size_t>(case_.shape.depth);
  const auto each = static_cast<std::size_t>(case_.shape.columns) * depth;
  weights_ = bench::normal_pattern(case_.counts.size() * each, 1.0 / std::sqrt(static_cast<double>(depth)), seed_ + 2);
  for (std::size_t expert = 0; expert < case_.counts.size(); ++expert) {
    if (case_.counts[expert] == 0) {
      std::fill_n(weights_.begin() + static_cast<std::ptrdiff_t>(expert * each), each, not_a_number);
    }
  }
}

void GroupedLayer::make_gemm() {
  kernels::GroupedOperands operands;
  operands.rows = rows_there_.as<void>();
  operands.most_rows = std::int64_t{most_blocks_} * block_rows;
  operands.weights = weights_there_.as<void>();
  operands.output = output_there_.as<std::uint16_t>() + guard();
  operands.counts = counts_there_.as<std::int32_t>();
  operands.first_block = first_block_there_.as<std::int32_t>();
  operands.router_weights = router_weights_there_.as<float>();
  operands.clamp = case_.clamp;
  gemm_ = kernels::make_grouped(case_.shape, case_.plan, operands);
}

std::size_t GroupedLayer::guard() const {
  return static_cast<std::size_t>(block_rows) * static_cast<std::size_t>(output_columns_);
}

std::size_t GroupedLayer::begin(std::int32_t expert) const {
  return static_cast<std::size_t>(first_block_[static_cast<std::size_t>(expert)]) * block_rows;
}

std::size_t GroupedLayer::end(std::int32_t expert) const {
  return begin(expert) + static_cast<std::size_t>(case_.counts[static_cast<std::size_t>(expert)]);
}

std::string GroupedLayer::complaint_about_places(const std::vector<std::uint16_t>& output) const {
  const auto columns = static_cast<std::size_t>(output_columns_);
  const std::size_t behind = guard() + begin(case_.shape.experts) * columns;
  for (std::size_t place = 0; place < output.size(); ++place) {
    if ((place < guard() || place >= behind) && output[place] != not_a_number) {
      return fmt::format("element {} outside of all blocks was written", place);
    }
  }
  for (std::int32_t expert = 0; expert < case_.shape.experts; ++expert) {
    for (std::size_t row = begin(expert); row < end(expert); ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        if (!std::isfinite(bench::from_bf16(output[guard() + row * columns + column]))) {
          return fmt::format("expert {}, row {}, column {} is no number", expert, row - begin(expert), column);
        }
      }
    }
  }
  return "";
}

double GroupedLayer::product(std::size_t row, std::int32_t expert, std::int64_t weight_row) const {
  const auto depth = static_cast<std::size_t>(case_.shape.depth);
  const std::uint16_t* a = &rows_[row * depth];
  const std::uint16_t* b = &weights_[(static_cast<std::size_t>(expert) * static_cast<std::size_t>(case_.shape.columns) +
                                      static_cast<std::size_t>(weight_row)) *
                                     depth];
  double sum = 0;
  for (std::size_t k = 0; k < depth; ++k) {
    sum += static_cast<double>(bench::from_bf16(a[k])) * static_cast<double>(bench::from_bf16(b[k]));
  }
  return sum;
}

double GroupedLayer::expected(std::size_t row, std::int32_t expert, std::int64_t column) const {
  if (!case_.shape.gated) {
    return product(row, expert, column);
  }
  return moe::activate(product(row, expert, moe::packed_gate_row(column)),
                       product(row, expert, moe::packed_up_row(column)), static_cast<double>(router_weights_[row]),
                       case_.clamp);
}

std::string GroupedLayer::complaint_about_values(const std::vector<std::uint16_t>& output) const {
  struct Element {
    std::int32_t expert;
    std::size_t row;
    std::int64_t column;
    double expected;
  };
  std::vector<Element> elements;
  double squares = 0;
  for (std::int32_t expert = 0; expert < case_.shape.experts; ++expert) {
    for (const std::int64_t row : bench::sample(case_.counts[static_cast<std::size_t>(expert)], 9, seed_ + 3)) {
      for (const std::int64_t column : bench::sample(output_columns_, 70, seed_ + 4)) {
        const std::size_t in_all = begin(expert) + static_cast<std::size_t>(row);
        elements.push_back({expert, in_all, column, expected(in_all, expert, column)});
        squares += elements.back().expected * elements.back().expected;
      }
    }
  }
  const double root_mean_square = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(elements.size(), 1)));
  for (const Element& element : elements) {
    const std::size_t place =
        guard() + element.row * static_cast<std::size_t>(output_columns_) + static_cast<std::size_t>(element.column);
    const auto result = static_cast<double>(bench::from_bf16(output[place]));
    if (bench::error_in_roundings(result, element.expected, root_mean_square) > bench::most_roundings) {
      return fmt::format("expert {}, row {}, column {} is {}, not {}", element.expert,
                         element.row - begin(element.expert), element.column, result, element.expected);
    }
  }
  return "";
}

}  // namespace xstage::moe_test
