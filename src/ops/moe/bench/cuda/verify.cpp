#include "ops/moe/bench/cuda/verify.hpp"

#include <algorithm>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "bench/normal_pattern.hpp"
#include "bench/random_bits.hpp"
#include "bench/sampling.hpp"
#include "ops/moe/bench/reference.hpp"
#include "ops/moe/packing.hpp"

namespace xstage::bench {

namespace {

constexpr std::size_t columns_of_a_token = 16;

std::size_t size_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Some consecutive elements of a bf16 matrix in device memory.
void read(const void* matrix, std::size_t first, std::vector<std::uint16_t>& elements) {
  cuda::check(cudaMemcpy(elements.data(), static_cast<const std::uint16_t*>(matrix) + first,
                         elements.size() * sizeof(std::uint16_t), cudaMemcpyDeviceToHost),
              "reading an operand back");
}

/// Weights as the reference asks for them: all rows of Linear-1 of one expert after the other, and few rows of
/// Linear-2.
class WeightsOnDevice {
 public:
  explicit WeightsOnDevice(const MoeResources& resources)
      : resources_(resources),
        hidden_(size_of(resources.cell.shape.hidden)),
        intermediate_(size_of(resources.cell.shape.intermediate)),
        linear1_(2 * intermediate_ * hidden_),
        linear2_(intermediate_) {}

  [[nodiscard]] moe::ExpertWeights get() {
    return {[this](int expert, std::int64_t row) { return linear1_row(expert, moe::packed_gate_row(row)); },
            [this](int expert, std::int64_t row) { return linear1_row(expert, moe::packed_up_row(row)); },
            [this](int expert, std::int64_t row) { return linear2_row(expert, row); }};
  }

 private:
  [[nodiscard]] int rank_of(int expert) const { return expert / resources_.cell.shape.experts_per_rank; }
  [[nodiscard]] std::size_t local(int expert) const { return size_of(expert % resources_.cell.shape.experts_per_rank); }

  std::span<const std::uint16_t> linear1_row(int expert, std::int64_t packed_row) {
    if (expert != expert_) {
      read(resources_.operands.linear1(rank_of(expert)), local(expert) * linear1_.size(), linear1_);
      expert_ = expert;
    }
    return std::span(linear1_).subspan(size_of(packed_row) * hidden_, hidden_);
  }

  std::span<const std::uint16_t> linear2_row(int expert, std::int64_t row) {
    read(resources_.operands.linear2(rank_of(expert)), (local(expert) * hidden_ + size_of(row)) * intermediate_,
         linear2_);
    return linear2_;
  }

  const MoeResources& resources_;
  std::size_t hidden_;
  std::size_t intermediate_;
  std::vector<std::uint16_t> linear1_;  // of expert_
  std::vector<std::uint16_t> linear2_;  // one row
  int expert_ = -1;
};

double error_of_token(const MoeResources& resources, const moe::ExpertWeights& weights, int rank, std::int64_t token,
                      int set, moe::Combine combine) {
  const MoeCell& cell = resources.cell;
  const std::size_t hidden = size_of(cell.shape.hidden);
  const std::size_t top_k = size_of(cell.shape.top_k);
  const moe::RankRouting& routing = resources.routing.ranks[size_of(rank)];
  std::vector<std::uint16_t> input(hidden);
  std::vector<std::uint16_t> output(hidden);
  read(resources.operands.tokens(rank, set), size_of(token) * hidden, input);
  read(resources.operands.output(rank).as<void>(), size_of(token) * hidden, output);
  const std::vector<std::int64_t> columns =
      sample(cell.shape.hidden, columns_of_a_token, static_cast<std::uint64_t>(token) + 1000);
  const moe::ReferenceToken reference{input, std::span(routing.experts).subspan(size_of(token) * top_k, top_k),
                                      std::span(routing.weights).subspan(size_of(token) * top_k, top_k), rank};
  std::vector<float> results(columns.size());
  std::transform(columns.begin(), columns.end(), results.begin(),
                 [&](std::int64_t column) { return from_bf16(output[size_of(column)]); });
  return moe::largest_error(results, moe::layer_columns(problem_of(cell), reference, columns, weights, combine));
}

}  // namespace

/// Uses one thread for each rank, on one of its tokens: it reads back and multiplies the weights of all experts of that
/// token.
double largest_error(const MoeResources& resources, int set, moe::Combine combine) {
  const MoeCell& cell = resources.cell;
  std::vector<std::future<double>> errors;
  for (int rank = 0; rank < cell.ranks; ++rank) {
    // Each cell and layer uses another token, so that all cells of a table together are a sample of many.
    const std::uint64_t seed = static_cast<std::uint64_t>(cell.tokens) * 1000 +
                               static_cast<std::uint64_t>(cell.skew) * 100 +
                               static_cast<std::uint64_t>(cell.remote_share.of) * 10 +
                               static_cast<std::uint64_t>(combine == moe::Combine::rows ? 1 : 0);
    const auto token = static_cast<std::int64_t>(random_bits(seed, static_cast<std::uint64_t>(rank)) %
                                                 static_cast<std::uint64_t>(cell.tokens));
    errors.push_back(std::async(std::launch::async, [&resources, rank, token, set, combine] {
      WeightsOnDevice weights(resources);
      return error_of_token(resources, weights.get(), rank, token, set, combine);
    }));
  }
  double largest = 0;
  for (std::future<double>& error : errors) {
    largest = std::max(largest, error.get());
  }
  return largest;
}

}  // namespace xstage::bench
