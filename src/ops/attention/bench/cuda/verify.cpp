#include "ops/attention/bench/cuda/verify.hpp"

#include <algorithm>

#include "bench/normal_pattern.hpp"
#include "bench/sampling.hpp"

namespace xstage::bench {

namespace {

constexpr std::size_t heads_of_a_rank = 4;
constexpr std::size_t rows_of_a_head = 16;

/// Rows of one head of [rows, heads, head_dim] in device memory.
std::vector<float> read_head(const void* tensor, int heads, int head_dim, int head, std::int64_t first,
                             std::int64_t count) {
  const auto columns = static_cast<std::size_t>(head_dim);
  const auto pitch = static_cast<std::size_t>(heads) * columns;
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count) * columns);
  const auto* from = static_cast<const std::uint16_t*>(tensor) + static_cast<std::size_t>(first) * pitch +
                     static_cast<std::size_t>(head) * columns;
  cuda::check(cudaMemcpy2D(bits.data(), columns * sizeof(*from), from, pitch * sizeof(*from), columns * sizeof(*from),
                           static_cast<std::size_t>(count), cudaMemcpyDeviceToHost),
              "reading a head back");
  std::vector<float> values(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(), from_bf16);
  return values;
}

}  // namespace

void AttentionReferences::add_samples(int rank, int head, int set, std::vector<Sample>& samples) const {
  const AttentionCell& cell = resources_.cell;
  const attention::Problem problem = problem_of_rank(cell);
  const attention::Operands operands = resources_.operands.addresses(rank, set);
  const cuda::CurrentDevice current(resources_.ranks.device(rank));
  const int key_head = key_head_of(cell, head);
  const std::vector<float> keys =
      read_head(operands.key, problem.kv_heads, problem.head_dim, key_head, 0, problem.keys);
  const std::vector<float> values =
      read_head(operands.value, problem.kv_heads, problem.head_dim, key_head, 0, problem.keys);
  for (const std::int64_t row :
       sampled_rows(cell, rows_of_a_head, static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(head))) {
    const std::vector<float> query = read_head(operands.query, problem.heads, problem.head_dim, head, row, 1);
    const auto seen = static_cast<std::size_t>(keys_seen(cell, row)) * query.size();
    samples.push_back({rank, row, head, attend(query, std::span(keys).first(seen), std::span(values).first(seen))});
  }
}

const std::vector<AttentionReferences::Sample>& AttentionReferences::samples_of(int set) {
  const auto [place, is_new] = by_set_.try_emplace(set);
  if (is_new) {
    const int heads = problem_of_rank(resources_.cell).heads;
    for (int rank = 0; rank < resources_.ranks.count(); ++rank) {
      for (const std::int64_t head : sample(heads, heads_of_a_rank, static_cast<std::uint64_t>(rank))) {
        add_samples(rank, static_cast<int>(head), set, place->second);
      }
    }
  }
  return place->second;
}

std::vector<float> AttentionReferences::result_of(const AttentionVariants& variants, const AttentionVariant& entry,
                                                  const Sample& sample) const {
  const AttentionCell& cell = resources_.cell;
  const int head_dim = cell.problem.head_dim;
  if (!AttentionVariants::at_owners(entry)) {
    return read_head(variants.result(entry, sample.rank), problem_of_rank(cell).heads, head_dim, sample.head,
                     sample.row, 1);
  }
  const ResultPlace place = owner_of(cell, sample.rank, sample.row, sample.head);
  return read_head(variants.result(entry, place.rank), cell.problem.heads, head_dim, place.head, place.row, 1);
}

double AttentionReferences::largest_error(const AttentionVariants& variants, const AttentionVariant& entry, int set) {
  double largest = 0;
  for (const Sample& sample : samples_of(set)) {
    largest = std::max(largest, bench::largest_error(result_of(variants, entry, sample), sample.reference));
  }
  return largest;
}

}  // namespace xstage::bench
