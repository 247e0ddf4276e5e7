// A projection whose all-to-all stores queries, keys and values, and an attention that starts on its arrival flags.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "gpu/fault_support.hpp"
#include "gpu/rank_support.hpp"
#include "xstage/attention.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"

namespace xstage::ulysses_test {
namespace {

using attention::Destination;
using gpu_test::complaint;
using gpu_test::Random;
using testing::HasSubstr;
using namespace std::chrono_literals;

struct Shape {
  std::int64_t tokens;
  int heads;  // of both ranks
  int kv_heads;
  int head_dim;
  bool causal;
};

gemm::Problem projection(const Shape& shape) {
  gemm::Problem problem;
  problem.operation = gemm::Operation::all_to_all;
  problem.m = shape.tokens;
  problem.k = 256;
  problem.head_dim = shape.head_dim;
  problem.parts = {{shape.heads}, {shape.kv_heads}, {shape.kv_heads}};
  problem.n = std::int64_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim;
  return problem;
}

attention::Problem attending(const Shape& shape) {
  attention::Problem problem;
  problem.rows = problem.keys = shape.tokens;
  problem.heads = shape.heads;
  problem.kv_heads = shape.kv_heads;
  problem.head_dim = shape.head_dim;
  problem.causal = shape.causal;
  problem.destination = Destination::to_owners;
  return problem;
}

/// Both operations on two GPUs, their operands, and another attention for comparison.
class Layer {
 public:
  explicit Layer(const Shape& shape, std::chrono::microseconds time_out = 5s)
      : shape_(shape),
        gemm_plan_(gemm::make_plan(projection(shape), 2, 132)),
        heap_(PeerAccessHeap::create({0, 1}, gemm::heap_bytes(projection(shape), gemm_plan_, 2) +
                                                 2 * attention::heap_bytes(attending(shape), 2))) {
    const attention::Plan plan = attention::make_plan(attending(shape), 2, 132);
    for (int rank = 0; rank < 2; ++rank) {
      streams_.push_back(std::make_unique<cuda::Stream>(rank));
      x_.emplace_back(rank, bytes(rows(rank) * projection(shape).k), "x");
      weights_.emplace_back(rank, bytes(projection(shape).n * projection(shape).k), "weights");
      projections_.push_back(std::make_unique<Gemm>(heap_.rank(rank), projection(shape), gemm_plan_, time_out));
      attentions_.push_back(std::make_unique<Attention>(heap_.rank(rank), attending(shape), plan, time_out));
      references_.push_back(std::make_unique<Attention>(heap_.rank(rank), attending(shape), plan, time_out));
    }
  }

  /// Fresh numbers; the GPUs must be idle.
  void fill(std::uint64_t seed) {
    Random random(seed);
    for (int rank = 0; rank < 2; ++rank) {
      copy_random(rank, x_[static_cast<std::size_t>(rank)], random);
      copy_random(rank, weights_[static_cast<std::size_t>(rank)], random);
    }
  }

  void enqueue(int rank) {
    const cuda::CurrentDevice current(rank);
    const auto index = static_cast<std::size_t>(rank);
    Gemm& projection_of_rank = *projections_[index];
    for (int part = 0; part < 3; ++part) {  // peers store only after this rank has entered the call
      cuda::check(cudaMemsetAsync(projection_of_rank.output(part), 0xFF, part_bytes(part), stream(rank)), "poisoning");
    }
    projection_of_rank.launch({.a = x_[index].as<void>(), .b = weights_[index].as<void>()}, stream(rank),
                              Completion::sent);
    attention::Operands operands = this->operands(rank);
    operands.arrivals = {projection_of_rank.arrivals(0), projection_of_rank.arrivals(1),
                         projection_of_rank.arrivals(2)};
    attentions_[index]->launch(operands, stream(rank));
  }

  void enqueue_reference(int rank) {
    references_[static_cast<std::size_t>(rank)]->launch(operands(rank), stream(rank));
  }

  void wait() const {
    for (int rank = 0; rank < 2; ++rank) {
      cuda::check(cudaStreamSynchronize(stream(rank)), "waiting for a rank");
    }
  }

  void check() const {
    for (int rank = 0; rank < 2; ++rank) {
      projections_[static_cast<std::size_t>(rank)]->check();
      attentions_[static_cast<std::size_t>(rank)]->check();
    }
  }

  [[nodiscard]] std::vector<std::uint16_t> result(int rank) const {
    return read(rank, *attentions_[static_cast<std::size_t>(rank)]);
  }
  [[nodiscard]] std::vector<std::uint16_t> reference(int rank) const {
    return read(rank, *references_[static_cast<std::size_t>(rank)]);
  }

  [[nodiscard]] Attention& attention(int rank) { return *attentions_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Gemm& projection_of(int rank) { return *projections_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] attention::Operands operands(int rank) const {
    const Gemm& projection_of_rank = *projections_[static_cast<std::size_t>(rank)];
    return {.query = projection_of_rank.output(0),
            .key = projection_of_rank.output(1),
            .value = projection_of_rank.output(2)};
  }
  [[nodiscard]] cudaStream_t stream(int rank) const { return streams_[static_cast<std::size_t>(rank)]->get(); }

 private:
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }
  [[nodiscard]] std::int64_t rows(int rank) const { return row_range(shape_.tokens, rank, 2).count; }
  [[nodiscard]] std::size_t part_bytes(int part) const {
    return bytes(shape_.tokens * ((part == 0 ? shape_.heads : shape_.kv_heads) / 2) * shape_.head_dim);
  }

  /// Sixteenths between -1 and 1: scores that differ, and no rounding of bf16 in the operands.
  static void copy_random(int rank, const cuda::DeviceBuffer& buffer, Random& random) {
    std::vector<std::uint16_t> bits(buffer.bytes() / 2);
    for (std::uint16_t& value : bits) {
      const float number = static_cast<float>(random.between(-16, 16)) / 16;
      std::uint32_t word = 0;
      std::memcpy(&word, &number, sizeof(word));
      value = static_cast<std::uint16_t>(word >> 16U);
    }
    const cuda::CurrentDevice current(rank);
    cuda::check(cudaMemcpy(buffer.as<void>(), bits.data(), buffer.bytes(), cudaMemcpyHostToDevice), "filling");
    cuda::check(cudaDeviceSynchronize(), "filling");
  }

  [[nodiscard]] std::vector<std::uint16_t> read(int rank, const Attention& from) const {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(rows(rank) * shape_.heads * shape_.head_dim));
    const cuda::CurrentDevice current(rank);
    cuda::check(cudaMemcpy(bits.data(), from.output(), bits.size() * 2, cudaMemcpyDeviceToHost), "reading back");
    return bits;
  }

  Shape shape_;
  Plan gemm_plan_;
  PeerAccessHeap heap_;
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  std::vector<cuda::DeviceBuffer> x_;
  std::vector<cuda::DeviceBuffer> weights_;
  std::vector<std::unique_ptr<Gemm>> projections_;
  std::vector<std::unique_ptr<Attention>> attentions_;
  std::vector<std::unique_ptr<Attention>> references_;
};

bool has_nan(const std::vector<std::uint16_t>& bits) {
  return std::any_of(bits.begin(), bits.end(), [](std::uint16_t value) { return (value & 0x7FFFU) > 0x7F80U; });
}

void expect_same(const Layer& layer, const std::string& what) {
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<std::uint16_t> result = layer.result(rank);
    EXPECT_FALSE(has_nan(result)) << what << ", rank " << rank;
    EXPECT_EQ(result, layer.reference(rank)) << what << ", rank " << rank;
  }
}

constexpr Shape shapes[] = {{1001, 4, 4, 128, false},   {5000, 2, 2, 128, false}, {640, 8, 4, 64, false},
                            {2048, 24, 24, 128, false}, {1500, 4, 2, 128, true},  {70, 4, 4, 128, false},
                            {3, 4, 4, 128, false}};

/// Enqueues call after call without a pause and verifies the last one.
TEST(UlyssesOnTwoGpus, AttentionStartsOnFlags) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.tokens << " tokens, " << shape.heads << " heads of " << shape.head_dim);
    Layer layer(shape);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      layer.fill(seed);
      for (int call = 0; call < 4; ++call) {
        for (int rank = 0; rank < 2; ++rank) {
          layer.enqueue(rank);
        }
      }
      layer.wait();
      layer.check();
      for (int rank = 0; rank < 2; ++rank) {
        layer.enqueue_reference(rank);
      }
      layer.wait();
      expect_same(layer, "calls of seed " + std::to_string(seed));
    }
  }
}

/// Without the wait for flags the early rank would read what was there before: NaN.
TEST(UlyssesOnTwoGpus, TheEarlyRankWaitsForTheLateOnesTiles) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Shape& shape : shapes) {
    Layer layer(shape);
    for (int late = 0; late < 2; ++late) {
      layer.fill(static_cast<std::uint64_t>(late));
      gpu_test::enqueue_late(late, 20ms, [&](int rank) { layer.enqueue(rank); });
      layer.wait();
      layer.check();
      for (int rank = 0; rank < 2; ++rank) {
        layer.enqueue_reference(rank);
      }
      layer.wait();
      expect_same(layer, std::to_string(shape.tokens) + " tokens, late rank " + std::to_string(late));
    }
  }
}

TEST(UlyssesOnTwoGpus, ARankThatNeverComesIsNamed) {
  SKIP_WITHOUT_HOPPER(2);
  Layer layer(shapes[0], 20ms);
  layer.fill(1);
  layer.enqueue(0);
  layer.wait();
  EXPECT_THAT(complaint<DeviceError>([&] { layer.check(); }), HasSubstr("rank 1"));
}

TEST(UlyssesOnTwoGpus, FlagsThatDoNotFitAreRefused) {
  SKIP_WITHOUT_HOPPER(2);
  Layer layer(shapes[0]);
  Layer other({500, 4, 4, 128, false});
  const auto refusal_of = [&](const attention::InputArrivals& arrivals) {
    attention::Operands operands = layer.operands(0);
    operands.arrivals = arrivals;
    return complaint<InputError>([&] { layer.attention(0).launch(operands, layer.stream(0)); });
  };
  const Gemm& gemm = layer.projection_of(0);
  EXPECT_THAT(refusal_of({gemm.arrivals(0), gemm.arrivals(1), {}}), HasSubstr("value has no flags"));
  EXPECT_THAT(refusal_of({gemm.arrivals(0), other.projection_of(0).arrivals(1), gemm.arrivals(2)}),
              HasSubstr("key has 250 rows from each rank"));
  EXPECT_THROW(static_cast<void>(gemm.arrivals(3)), InputError);
}

}  // namespace
}  // namespace xstage::ulysses_test
