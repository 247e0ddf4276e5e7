#include "ops/ulysses/bench/cuda/verify.hpp"

#include <algorithm>

#include "bench/normal_pattern.hpp"
#include "bench/sampling.hpp"
#include "ops/attention/bench/reference.hpp"
#include "ops/gemm/bench/sampled_result.hpp"
#include "ops/ulysses/bench/comparison.hpp"

namespace xstage::bench {

namespace {

constexpr std::size_t rows_of_a_product = 8;
constexpr std::size_t columns_of_a_product = 8;
constexpr std::size_t heads_of_a_rank = 2;
constexpr std::size_t rows_of_a_head = 4;

/// Part of a row-major matrix in device memory.
struct Block {
  std::int64_t row = 0;
  std::int64_t rows = 1;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};

std::vector<float> read_block(const void* matrix, std::int64_t matrix_columns, const Block& block) {
  constexpr std::size_t bytes = sizeof(std::uint16_t);
  const auto columns = static_cast<std::size_t>(block.columns);
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(block.rows) * columns);
  const auto* from = static_cast<const std::uint16_t*>(matrix) + block.row * matrix_columns + block.column;
  cuda::check(cudaMemcpy2D(bits.data(), columns * bytes, from, static_cast<std::size_t>(matrix_columns) * bytes,
                           columns * bytes, static_cast<std::size_t>(block.rows), cudaMemcpyDeviceToHost),
              "reading a result back");
  std::vector<float> values(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(), from_bf16);
  return values;
}

std::vector<float> read_row(const void* matrix, std::int64_t columns, std::int64_t row) {
  return read_block(matrix, columns, {.row = row, .columns = columns});
}

class StageErrors {
 public:
  StageErrors(const UlyssesResources& resources, const UlyssesVariants& variants, int set)
      : resources_(resources), variants_(variants), set_(set), hidden_(hidden_of(resources.cell)) {}

  /// One part of Q, K and V on one rank.
  [[nodiscard]] double projection(int rank, int part) const {
    const GemmCell cell = projection_of(resources_.cell);
    const ResultShape shape = result_shapes(cell, rank)[static_cast<std::size_t>(part)];
    const std::uint64_t seed = static_cast<std::uint64_t>(rank) * 16 + static_cast<std::uint64_t>(part);
    const std::vector<std::int64_t> columns = sample(shape.columns, columns_of_a_product, seed + 1000);
    SampledErrors errors;
    for (const std::int64_t row : sample(shape.rows, rows_of_a_product, seed)) {
      const std::vector<float> result = read_row(variants_.projected(rank, part), shape.columns, row);
      for (const std::int64_t column : columns) {
        double expected = 0;
        for (const Product& product : products_of(cell, rank, static_cast<std::size_t>(part), row, column)) {
          expected +=
              dot(read_row(resources_.operands.states(product.a_rank, set_), hidden_, product.a_row),
                  read_row(resources_.operands.projection_weights(product.b_rank, set_), hidden_, product.b_row));
        }
        errors.add(result[static_cast<std::size_t>(column)], expected);
      }
    }
    return errors.largest();
  }

  /// Rows that a rank computes for one of its heads, where their owners have them.
  [[nodiscard]] double attention(int rank, int head) const {
    const AttentionCell cell = attention_of(resources_.cell);
    const std::int64_t columns = std::int64_t{ulysses_head_dim} * (cell.problem.heads / cell.ranks);
    const auto read = [&](int part, std::int64_t row, std::int64_t rows) {
      return read_block(variants_.projected(rank, part), columns,
                        {row, rows, std::int64_t{head} * ulysses_head_dim, ulysses_head_dim});
    };
    const std::vector<float> keys = read(1, 0, cell.problem.keys);
    const std::vector<float> values = read(2, 0, cell.problem.keys);
    const std::uint64_t seed = static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(head);
    double largest = 0;
    for (const std::int64_t row : sampled_rows(cell, rows_of_a_head, seed)) {
      const ReferenceRow reference = attend(read(0, row, 1), keys, values);
      const ResultPlace place = owner_of(cell, rank, row, head);
      const std::vector<float> result =
          read_block(variants_.attended(place.rank), hidden_,
                     {place.row, 1, std::int64_t{place.head} * ulysses_head_dim, ulysses_head_dim});
      largest = std::max(largest, bench::largest_error(result, reference));
    }
    return largest;
  }

  [[nodiscard]] double output_projection(int rank) const {
    const auto seed = static_cast<std::uint64_t>(rank);
    const std::vector<std::int64_t> columns = sample(hidden_, columns_of_a_product, seed + 2000);
    SampledErrors errors;
    for (const std::int64_t row : sample(own_tokens(resources_.cell, rank), rows_of_a_product, seed)) {
      const std::vector<float> attended = read_row(variants_.attended(rank), hidden_, row);
      const std::vector<float> result = read_row(resources_.operands.result(rank).as<void>(), hidden_, row);
      for (const std::int64_t column : columns) {
        errors.add(result[static_cast<std::size_t>(column)],
                   dot(attended, read_row(resources_.operands.output_weights(rank, set_), hidden_, column)));
      }
    }
    return errors.largest();
  }

 private:
  const UlyssesResources& resources_;
  const UlyssesVariants& variants_;
  int set_;
  std::int64_t hidden_;
};

}  // namespace

double largest_error(const UlyssesResources& resources, const UlyssesVariants& variants, int set) {
  const StageErrors errors(resources, variants, set);
  const UlyssesCell& cell = resources.cell;
  double largest = 0;
  for (int rank = 0; rank < cell.ranks; ++rank) {
    for (const int part : {0, 1, 2}) {
      largest = std::max(largest, errors.projection(rank, part));
    }
    for (const std::int64_t head : sample(cell.heads / cell.ranks, heads_of_a_rank, static_cast<std::uint64_t>(rank))) {
      largest = std::max(largest, errors.attention(rank, static_cast<int>(head)));
    }
    largest = std::max(largest, errors.output_projection(rank));
  }
  return largest;
}

namespace {

std::vector<std::uint16_t> read_result(const UlyssesResources& resources, int rank) {
  const cuda::DeviceBuffer& result = resources.operands.result(rank);
  return result.read<std::uint16_t>(result.bytes() / sizeof(std::uint16_t));
}

}  // namespace

UlyssesResults read_results(const UlyssesResources& resources) {
  UlyssesResults results;
  for (int rank = 0; rank < resources.cell.ranks; ++rank) {
    results.push_back(read_result(resources, rank));
  }
  return results;
}

std::int64_t count_differing(const UlyssesResources& resources, const UlyssesResults& results) {
  std::int64_t count = 0;
  for (int rank = 0; rank < resources.cell.ranks; ++rank) {
    count += bench::count_differing(results[static_cast<std::size_t>(rank)], read_result(resources, rank));
  }
  return count;
}

}  // namespace xstage::bench
