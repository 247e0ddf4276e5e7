#include "ops/moe/bench/cuda/operands.hpp"

#include <fmt/format.h>

#include <utility>

#include "bench/cuda/operand_memory.hpp"

namespace xstage::bench {

namespace {

std::size_t product(std::int64_t one, std::int64_t other, std::int64_t third = 1) {
  return static_cast<std::size_t>(one * other * third);
}

template <typename Value>
cuda::DeviceBuffer copied(int device, const std::vector<Value>& values, const char* purpose) {
  const std::size_t bytes = values.size() * sizeof(Value);
  cuda::DeviceBuffer buffer(device, bytes, purpose);
  const cuda::CurrentDevice current(device);
  cuda::check(cudaMemcpy(buffer.as<void>(), values.data(), bytes, cudaMemcpyHostToDevice), "copying an operand");
  // The copy may return before it is complete, and other streams do not wait for it.
  cuda::check(cudaDeviceSynchronize(), "copying an operand");
  return buffer;
}

}  // namespace

MoeWeights::MoeWeights(const Ranks& ranks, const moe::Shape& shape) : shape_(shape.name) {
  const double deviation = weight_deviation(shape.hidden);
  std::uint64_t stream_number = 1000;
  const auto add = [&](std::vector<cuda::DeviceBuffer>& buffers, int device, const char* purpose,
                       std::size_t elements) {
    buffers.emplace_back(device, elements * element_bytes, purpose);
    // Random weights need no packing, since their order has no meaning.
    fill_normal(device, buffers.back().as<void>(), elements, deviation, stream_number++);
  };
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const int device = ranks.device(rank);
    add(linear1_, device, "weights of Linear-1", product(shape.experts_per_rank, 2 * shape.intermediate, shape.hidden));
    add(linear2_, device, "weights of Linear-2", product(shape.experts_per_rank, shape.hidden, shape.intermediate));
  }
}

MoeOperands::MoeOperands(const Ranks& ranks, const MoeCell& cell, const moe::Routing& routing,
                         const MoeWeights& weights)
    : weights_(weights), tokens_(cell.tokens) {
  const std::size_t elements = product(cell.tokens, cell.shape.hidden);
  std::uint64_t stream_number = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const int device = ranks.device(rank);
    const moe::RankRouting& own = routing.ranks[static_cast<std::size_t>(rank)];
    OfRank made;
    for (int set = 0; set < sets; ++set) {
      made.tokens.emplace_back(device, elements * element_bytes, "tokens");
      fill_normal(device, made.tokens.back().as<void>(), elements, 1, stream_number++);
    }
    made.experts = copied(device, own.experts, "expert ids");
    made.router_weights = copied(device, own.weights, "router weights");
    made.output = {device, elements * element_bytes, "the output"};
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
  operands.linear1 = weights_.linear1(rank).as<void>();
  operands.linear2 = weights_.linear2(rank).as<void>();
  operands.output = of_rank.output.as<void>();
  return operands;
}

std::string MoeOperands::l2_policy() const {
  return fmt::format(
      "weights of {} MiB, more than L2 holds; tokens rotate over {} sets; of what one kernel leaves for the next L2 "
      "holds what it can",
      (weights_.linear1(0).bytes() + weights_.linear2(0).bytes()) >> 20U, sets);
}

}  // namespace xstage::bench
