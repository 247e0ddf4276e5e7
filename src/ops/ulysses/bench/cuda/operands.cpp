#include "ops/ulysses/bench/cuda/operands.hpp"

#include <algorithm>

namespace xstage::bench {

namespace {

/// Elements of the projected tensors, also on the rank with fewest tokens: a rank's attention may read all of them.
std::size_t most_elements(const UlyssesCell& cell) {
  return static_cast<std::size_t>(own_tokens(cell, 0) * hidden_of(cell));
}

}  // namespace

UlyssesOperands::UlyssesOperands(const Ranks& ranks, const UlyssesCell& cell) {
  const auto hidden = static_cast<std::size_t>(hidden_of(cell));
  const std::size_t largest = most_elements(cell);
  const double of_weight = weight_deviation(hidden_of(cell));
  bytes_of_set_ = (largest + 4 * hidden * hidden) * element_bytes;
  sets_ = std::max(2, sets_beyond_l2(bytes_of_set_));
  std::uint64_t stream_number = 2 * static_cast<std::uint64_t>(sets_);  // the first ones are those of the weights
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const int device = ranks.device(rank);
    const auto filled = [device](const char* purpose, std::size_t elements, double deviation, std::uint64_t number) {
      cuda::DeviceBuffer buffer(device, elements * element_bytes, purpose);
      fill_normal(device, buffer.as<void>(), elements, deviation, number);
      return buffer;
    };
    const auto own = static_cast<std::size_t>(own_tokens(cell, rank)) * hidden;
    for (int set = 0; set < sets_; ++set) {
      const auto of_weights = 2 * static_cast<std::uint64_t>(set);
      operands_.push_back({filled("hidden states", own, 1, stream_number++),
                           filled("weights of Q, K and V", 3 * hidden * hidden, of_weight, of_weights),
                           filled("weights of the result", hidden * hidden, of_weight, of_weights + 1)});
    }
    projected_.push_back(filled("queries, keys and values", 3 * largest, 1, stream_number++));
    attended_.push_back(filled("the attention's result", largest, 1, stream_number++));
    result_.emplace_back(device, own * element_bytes, "the result");
  }
}

const void* UlyssesOperands::projected_part(int rank, int part) const {
  const std::size_t bytes = at(projected_, rank).bytes() / 3;
  return at(projected_, rank).as<char>() + static_cast<std::size_t>(part) * bytes;
}

std::string UlyssesOperands::l2_policy() const {
  return l2_policy_text(sets_, bytes_of_set_) + "; of what one operation leaves for the next L2 holds what it can";
}

}  // namespace xstage::bench
