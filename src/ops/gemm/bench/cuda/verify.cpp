#include "ops/gemm/bench/cuda/verify.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "bench/cuda/operand_memory.hpp"
#include "bench/normal_pattern.hpp"
#include "ops/gemm/bench/sampled_result.hpp"

namespace xstage::bench {

namespace {

using gemm::Operation;

constexpr std::size_t sampled = 64;

std::vector<float> read_row(const void* matrix, std::int64_t row, std::int64_t columns) {
  const auto count = static_cast<std::size_t>(columns);
  std::vector<std::uint16_t> bits(count);
  cuda::check(cudaMemcpy(bits.data(), static_cast<const std::uint16_t*>(matrix) + row * columns,
                         count * sizeof(std::uint16_t), cudaMemcpyDeviceToHost),
              "reading a row back");
  std::vector<float> values(count);
  std::transform(bits.begin(), bits.end(), values.begin(), from_bf16);
  return values;
}

/// Rows of the operands as they are on the GPUs, each read once.
class OperandRows {
 public:
  OperandRows(const GemmResources& resources, int set) : resources_(resources), set_(set) {}

  [[nodiscard]] double product(const Product& product) {
    const std::vector<float>& a = row(false, product.a_rank, product.a_row);
    const std::vector<float>& b = row(true, product.b_rank, product.b_row);
    double sum = 0;
    for (std::size_t index = 0; index < a.size(); ++index) {
      sum += static_cast<double>(a[index]) * static_cast<double>(b[index]);
    }
    return sum;
  }

 private:
  const std::vector<float>& row(bool of_b, int rank, std::int64_t number) {
    const auto [place, is_new] = rows_.try_emplace({of_b, rank, number});
    if (is_new) {
      const GemmOperands& operands = resources_.operands;
      place->second =
          read_row(of_b ? operands.b(rank, set_) : operands.a(rank, set_), number, depth_of_rank(resources_.cell));
    }
    return place->second;
  }

  const GemmResources& resources_;
  int set_;
  std::map<std::tuple<bool, int, std::int64_t>, std::vector<float>> rows_;
};

bool in_heap(Operation operation) { return operation == Operation::all_reduce || operation == Operation::all_to_all; }

void* result_of(const GemmResources& resources, GemmHandles& handles, int rank, std::size_t part) {
  return in_heap(resources.cell.problem.operation) ? handles.of_rank(rank).output(static_cast<int>(part))
                                                   : resources.operands.output(rank);
}

struct Comparison {
  double result;
  double expected;
};

void compare_part(const GemmResources& resources, GemmHandles& handles, OperandRows& operands, int rank,
                  std::size_t part, std::vector<Comparison>& comparisons) {
  const ResultShape shape = result_shapes(resources.cell, rank)[part];
  const void* result = result_of(resources, handles, rank, part);
  const auto seed = static_cast<std::uint64_t>(rank) * 16 + part;
  const std::vector<std::int64_t> columns = sample(shape.columns, sampled, seed + 1000);
  for (const std::int64_t row : sample(shape.rows, sampled, seed)) {
    const std::vector<float> values = read_row(result, row, shape.columns);
    for (const std::int64_t column : columns) {
      double expected = 0;
      for (const Product& product : products_of(resources.cell, rank, part, row, column)) {
        expected += operands.product(product);
      }
      comparisons.push_back({static_cast<double>(values[static_cast<std::size_t>(column)]), expected});
    }
  }
}

double largest_of(const std::vector<Comparison>& comparisons) {
  double squares = 0;
  for (const Comparison& comparison : comparisons) {
    squares += comparison.expected * comparison.expected;
  }
  const double root_mean_square =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(comparisons.size(), 1)));
  double largest = 0;
  for (const Comparison& comparison : comparisons) {
    largest = std::max(largest, error_in_roundings(comparison.result, comparison.expected, root_mean_square));
  }
  return largest;
}

}  // namespace

void poison_results(const GemmResources& resources, GemmHandles& handles) {
  for (int rank = 0; rank < resources.ranks.count(); ++rank) {
    resources.operands.poison_output(resources.ranks, rank);
    if (!in_heap(resources.cell.problem.operation)) {
      continue;
    }
    const std::vector<ResultShape> shapes = result_shapes(resources.cell, rank);
    for (std::size_t part = 0; part < shapes.size(); ++part) {
      poison(resources.ranks.device(rank), result_of(resources, handles, rank, part),
             static_cast<std::size_t>(shapes[part].rows * shapes[part].columns) * 2);
    }
  }
}

double largest_error(const GemmResources& resources, GemmHandles& handles, int set) {
  OperandRows operands(resources, set);
  std::vector<Comparison> comparisons;
  for (int rank = 0; rank < resources.ranks.count(); ++rank) {
    const std::size_t parts = result_shapes(resources.cell, rank).size();
    for (std::size_t part = 0; part < parts; ++part) {
      compare_part(resources, handles, operands, rank, part, comparisons);
    }
  }
  return largest_of(comparisons);
}

}  // namespace xstage::bench
