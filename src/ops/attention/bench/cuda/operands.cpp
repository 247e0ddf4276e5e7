#include "ops/attention/bench/cuda/operands.hpp"

namespace xstage::bench {

AttentionOperands::AttentionOperands(const Ranks& ranks, const AttentionCell& cell) {
  const attention::Problem problem = problem_of_rank(cell);
  const auto elements_of = [&](std::int64_t rows, int heads) {
    return static_cast<std::size_t>(problem.sequences * rows * heads * problem.head_dim);
  };
  const std::size_t queries = elements_of(problem.rows, problem.heads);
  const std::size_t keys = elements_of(problem.keys, problem.kv_heads);
  bytes_of_set_ = (queries + 2 * keys) * element_bytes;
  sets_ = sets_beyond_l2(bytes_of_set_);
  std::uint64_t stream_number = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const int device = ranks.device(rank);
    const auto filled = [&](const char* purpose, std::size_t elements) {
      cuda::DeviceBuffer buffer(device, elements * element_bytes, purpose);
      fill_normal(device, buffer.as<void>(), elements, 1, stream_number++);
      return buffer;
    };
    for (int set = 0; set < sets_; ++set) {
      operands_.push_back({filled("queries", queries), filled("keys", keys), filled("values", keys)});
    }
    output_.push_back(filled("the result", queries));
  }
}

attention::Operands AttentionOperands::addresses(int rank, int set) const {
  const Set& chosen =
      operands_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(sets_) + static_cast<std::size_t>(set)];
  attention::Operands operands;
  operands.query = chosen.query.as<void>();
  operands.key = chosen.key.as<void>();
  operands.value = chosen.value.as<void>();
  operands.output = output(rank);
  return operands;
}

}  // namespace xstage::bench
