#include "bench/cuda/moe_operands.hpp"

#include <fmt/format.h>

namespace xstage::bench {

namespace {

constexpr std::size_t element_bytes = 2;

std::size_t product(std::int64_t one, std::int64_t other, std::int64_t third = 1) {
  return static_cast<std::size_t>(one * other * third);
}

template <typename Value>
cuda::DeviceBuffer copied(int device, const std::vector<Value>& values, const char* purpose) {
  const std::size_t bytes = values.size() * sizeof(Value);
  cuda::DeviceBuffer buffer(device, bytes, purpose);
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), values.data(), bytes, cudaMemcpyHostToDevice), "copying an operand");
  // The copy may return before it is done, and other streams do not wait for it.
  cuda::check(cudaDeviceSynchronize(), "copying an operand");
  return buffer;
}

}  // namespace

MoeOperands::MoeOperands(const Ranks& ranks, const MoeCell& cell, const moe::Routing& routing,
                         const RandomBlock& for_tokens, const RandomBlock& for_weights)
    : tokens_(cell.tokens) {
  const moe::Shape& shape = cell.shape;
  std::uint64_t stream_number = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const int device = ranks.device(rank);
    const auto filled = [&](const char* purpose, std::size_t elements, const RandomBlock& block) {
      cuda::DeviceBuffer buffer(device, elements * element_bytes, purpose);
      block.fill(device, buffer.as<void>(), elements, stream_number++);
      return buffer;
    };
    const moe::RankRouting& own = routing.ranks[static_cast<std::size_t>(rank)];
    OfRank made;
    for (int set = 0; set < sets; ++set) {
      made.tokens.push_back(filled("tokens", product(cell.tokens, shape.hidden), for_tokens));
    }
    made.experts = copied(device, own.experts, "expert ids");
    made.router_weights = copied(device, own.weights, "router weights");
    // Random numbers are as good packed as not.
    made.linear1 = filled("weights of Linear-1", product(shape.experts_per_rank, 2 * shape.intermediate, shape.hidden),
                          for_weights);
    made.linear2 =
        filled("weights of Linear-2", product(shape.experts_per_rank, shape.hidden, shape.intermediate), for_weights);
    made.output = {device, product(cell.tokens, shape.hidden) * element_bytes, "the output"};
    of_rank_.push_back(std::move(made));
  }
}

moe::Operands MoeOperands::of_launch(int rank, int set) const {
  const OfRank& of_rank = at(rank);
  moe::Operands operands;
  operands.tokens = tokens_;
  operands.tokens_in = tokens(rank, set);
  operands.experts = of_rank.experts.as<std::int32_t>();
  operands.router_weights = of_rank.router_weights.as<float>();
  operands.linear1 = of_rank.linear1.as<void>();
  operands.linear2 = of_rank.linear2.as<void>();
  operands.output = of_rank.output.as<void>();
  return operands;
}

std::string MoeOperands::l2_policy() const {
  const OfRank& first = of_rank_.front();
  return fmt::format(
      "weights of {} MiB, more than L2 holds; tokens rotate over {} sets; of what one kernel leaves for the next L2 "
      "holds what it can",
      (first.linear1.bytes() + first.linear2.bytes()) >> 20U, sets);
}

}  // namespace xstage::bench
