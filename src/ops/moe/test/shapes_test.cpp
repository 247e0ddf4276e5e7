#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/moe/bench/shapes.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe::shapes_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(MoeShapes, AllKeepTheRules) {
  EXPECT_EQ(shapes().size(), 7U);
  for (const Shape& shape : shapes()) {
    for (const int world : {1, 2, 8}) {
      for (const std::int64_t tokens : matrix_tokens) {
        EXPECT_NO_THROW(check_problem(problem_of(shape, tokens), world)) << shape.name;
      }
    }
    EXPECT_EQ(&find_shape(shape.name), &shape);
  }
}

TEST(MoeShapes, NumbersAreThoseOfTheModels) {
  const Problem largest = problem_of(find_shape("deepseek-v4-pro"), 8192);
  EXPECT_EQ(largest.hidden, 7168);
  EXPECT_EQ(largest.intermediate, 3072);
  EXPECT_EQ(largest.experts_per_rank, 48);
  EXPECT_EQ(largest.top_k, 6);
  EXPECT_EQ(largest.most_tokens, 8192);
  EXPECT_EQ(largest.clamp, 0);
  // Experts of the whole model, on eight ranks; and parameters of an expert, which no swap of two columns leaves alone.
  const auto check = [](const char* name, int experts, std::int64_t parameters, std::int64_t hidden, int top_k) {
    const Shape& shape = find_shape(name);
    EXPECT_EQ(shape.experts_per_rank * 8, experts) << name;
    EXPECT_EQ(3 * shape.hidden * shape.intermediate, parameters) << name;
    EXPECT_EQ(shape.hidden, hidden) << name;
    EXPECT_EQ(shape.top_k, top_k) << name;
  };
  check("Qwen3-30B-A3B", 128, 4718592, 2048, 8);
  check("Qwen3.5", 512, 12582912, 4096, 10);
  check("Qwen3-235B", 128, 18874368, 4096, 8);
  check("DeepSeek-V4-Flash", 256, 25165824, 4096, 6);
  check("GLM-5", 256, 37748736, 6144, 8);
  check("DeepSeek-V3", 256, 44040192, 7168, 8);
}

TEST(MoeShapes, PublishedOnesExist) {
  for (const std::string_view name : published_shapes) {
    EXPECT_EQ(find_shape(name).name, name);
  }
}

TEST(MoeShapes, UnknownNamesAreRefusedWithAllThatThereAre) {
  for (const char* name : {"", "Qwen3", "Qwen3.55", "DeepSeek-V3 "}) {
    try {
      static_cast<void>(find_shape(name));
      ADD_FAILURE() << name;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("shape '" + std::string(name) + "'"), HasSubstr("Qwen3-30B-A3B, "),
                                      HasSubstr("DeepSeek-V4-Pro")));
    }
  }
}

}  // namespace
}  // namespace xstage::moe::shapes_test
