#include "ops/gemm/bench/cuda/operands.hpp"

namespace xstage::bench {

GemmOperands::GemmOperands(const Ranks& ranks, const GemmCell& cell) {
  const GemmShape shape = shape_of_rank(cell);
  const auto elements_a = static_cast<std::size_t>(shape.m * shape.k);
  const auto elements_b = static_cast<std::size_t>(shape.n * shape.k);
  bytes_of_set_ = (elements_a + elements_b) * element_bytes;
  sets_ = sets_beyond_l2(bytes_of_set_);
  std::uint64_t stream_number = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const int device = ranks.device(rank);
    for (int set = 0; set < sets_; ++set) {
      a_.emplace_back(device, elements_a * element_bytes, "operand A");
      fill_normal(device, a_.back().as<void>(), elements_a, 1, stream_number++);
      b_.emplace_back(device, elements_b * element_bytes, "operand B");
      fill_normal(device, b_.back().as<void>(), elements_b, weight_deviation(cell.problem.k), stream_number++);
    }
    output_.emplace_back(device, static_cast<std::size_t>(shape.m * shape.n) * element_bytes, "the result");
  }
}

void GemmOperands::poison_output(const Ranks& ranks, int rank) const {
  poison(ranks.device(rank), output(rank), output_[static_cast<std::size_t>(rank)].bytes());
}

std::string GemmOperands::l2_policy() const { return l2_policy_text(sets_, bytes_of_set_); }

}  // namespace xstage::bench
