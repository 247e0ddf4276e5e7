#pragma once
// What the GPU tests of MoeLayer share: cases, weights of all experts, the ranks of one layer, and calls with
// reference.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "gpu/rank_support.hpp"
#include "ops/moe/bench/reference.hpp"
#include "ops/moe/bench/routing.hpp"
#include "xstage/moe.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::moe_layer_test {

using gpu_test::Random;
using gpu_test::virtual_ranks;

using Elements = std::vector<std::uint16_t>;

struct Case {
  int ranks = 1;
  moe::Problem problem;
  moe::Plan plan;  // what is 0 is up to the rule

  [[nodiscard]] std::string text() const;
};

[[nodiscard]] Case make_case(int ranks, std::int64_t hidden, std::int64_t intermediate, int experts_per_rank, int top_k,
                             std::int64_t most_tokens);
/// Widths that are multiples of 64 and most of them of nothing larger, few or many experts, any clamp.
[[nodiscard]] Case random_case(int ranks, Random& random);
/// `tokens` of each rank.
[[nodiscard]] moe::Routing routing_of(const Case& which, const std::vector<std::int64_t>& tokens, moe::Skew skew,
                                      std::uint64_t seed = 1);
/// Any skew, any numbers of tokens, 0 included; masked tokens and choices, experts that stand twice or at all places,
/// weights of both signs.
[[nodiscard]] moe::Routing random_routing(const Case& which, Random& random);

/// Weights of all experts on the host, and on each rank's GPU those of its own, packed there.
class LayerWeights {
 public:
  LayerWeights(const Case& which, const std::vector<int>& devices, std::uint64_t seed);

  [[nodiscard]] const void* linear1(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].linear1.as<void>();
  }
  [[nodiscard]] const void* linear2(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].linear2.as<void>();
  }
  /// For references; valid as long as this.
  [[nodiscard]] moe::ExpertWeights host() const;

 private:
  struct Rank {
    cuda::DeviceBuffer linear1, linear2;
  };
  void upload(int rank, int device);
  [[nodiscard]] std::span<const std::uint16_t> row(const Elements& all, int expert, std::int64_t row, std::int64_t rows,
                                                   std::int64_t columns) const;

  moe::Problem problem_;
  Elements gate_, up_, linear2_;  // of all ranks
  std::vector<Rank> ranks_;
};

/// Operands and results of one call on all ranks. Results are full of NaN at first.
class Call {
 public:
  Call(const Case& which, const std::vector<int>& devices, const LayerWeights& weights, const moe::Routing& routing,
       std::uint64_t seed);

  [[nodiscard]] moe::Operands operands(int rank) const;
  /// Other tokens and another routing at the same addresses, of as many tokens; NaN in results. The GPUs must be idle.
  void refill(const moe::Routing& routing, std::uint64_t seed);
  /// One choice as the device sees it; the reference does not know of it.
  void overwrite(int rank, std::size_t choice, std::int32_t expert, float weight) const;

  /// [most_tokens, hidden]
  [[nodiscard]] Elements read_result(int rank) const;
  /// Compares with the reference: every element of a token's result is a number, tokens without choices have zeros, a
  /// sample of the others is right, nothing is written behind the last token. Empty: all is well.
  [[nodiscard]] std::string complaint() const;

 private:
  struct Rank {
    Elements tokens;
    cuda::DeviceBuffer tokens_in, experts, weights, output;
  };
  void fill(std::uint64_t seed);
  [[nodiscard]] std::string complaint_about(int rank) const;
  [[nodiscard]] std::string complaint_about_places(int rank, const Elements& result) const;
  [[nodiscard]] std::string complaint_about_token(int rank, std::int64_t token, const Elements& result) const;
  [[nodiscard]] bool has_choices(int rank, std::int64_t token) const;

  Case case_;
  std::vector<int> devices_;
  const LayerWeights& weights_;
  moe::Routing routing_;
  std::uint64_t seed_ = 0;
  std::vector<Rank> ranks_;
};

/// The handles of all ranks with their heap and streams. Ranks that share a GPU are virtual ones.
class Ranks {
 public:
  Ranks(const Case& which, const std::vector<int>& devices,
        std::chrono::microseconds time_out = std::chrono::seconds(5));

  [[nodiscard]] MoeLayer& operator[](int rank) { return *handles_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  [[nodiscard]] cudaStream_t stream(int rank) const {
    return streams_[virtual_ ? 0 : static_cast<std::size_t>(rank)]->get();
  }
  [[nodiscard]] std::vector<MoeLayer*> handles() const;

  /// On all ranks. Waits for nothing, but virtual ranks do.
  void enqueue(const Call& call);
  /// One rank alone.
  void enqueue_rank(const Call& call, int rank) { (*this)[rank].launch(call.operands(rank), stream(rank)); }
  void wait() const;
  /// wait(), then every rank's check().
  void finish() const;

 private:
  std::vector<int> devices_;
  bool virtual_ = false;
  PeerAccessHeap heap_;
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<std::unique_ptr<MoeLayer>> handles_;
};

}  // namespace xstage::moe_layer_test
