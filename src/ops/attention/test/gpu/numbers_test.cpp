// Attention with scores that are huge or all alike, and with operands that are NaN or infinite: results that are known
// without a reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "device/device_memory.hpp"
#include "ops/attention/test/gpu/reference.hpp"
#include "ops/attention/test/gpu/support.hpp"
#include "xstage/attention.hpp"

namespace xstage::numbers_test {
namespace {

using attention::Destination;
using attention::Element;
using attention_test::make_case;
using attention_test::make_problem;
using attention_test::Ranks;

/// One head of each operand; all elements of a row are the same.
struct Rows {
  std::function<float(std::int64_t)> query;
  std::function<float(std::int64_t)> key;
  std::function<float(std::int64_t)> value;
};

struct Outcome {
  std::vector<std::uint16_t> bits;  // [rows, head_dim]
  std::vector<float> log_sum_exp;   // [rows]
};

Rows constant_rows(float query, float key, std::function<float(std::int64_t)> value) {
  return {[query](std::int64_t) { return query; }, [key](std::int64_t) { return key; }, std::move(value)};
}

cuda::DeviceBuffer upload(std::int64_t rows, int head_dim, Element element,
                          const std::function<float(std::int64_t)>& value_of) {
  std::vector<std::uint16_t> bits;
  bits.reserve(static_cast<std::size_t>(rows * head_dim));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float value = value_of(row);
    // The reference's rounding is not for NaN; all bits are one in either type.
    bits.insert(bits.end(), static_cast<std::size_t>(head_dim),
                std::isnan(value) ? std::uint16_t{0xFFFF} : attention_test::to_bits(value, element));
  }
  cuda::DeviceBuffer buffer(0, bits.size() * sizeof(bits[0]), "an operand");
  cuda::check(cudaMemcpy(buffer.as<void>(), bits.data(), buffer.bytes(), cudaMemcpyHostToDevice), "copying an operand");
  cuda::check(cudaDeviceSynchronize(), "copying an operand");
  return buffer;
}

attention::Problem problem_of(std::int64_t rows, std::int64_t keys, float scale = 0) {
  attention::Problem problem = make_problem(Destination::local, 1, rows, keys, 1, 1);
  problem.scale = scale;
  return problem;
}

attention::Problem causal_problem(std::int64_t rows) {
  attention::Problem problem = problem_of(rows, rows);
  problem.causal = true;
  return problem;
}

Outcome attend(const attention::Problem& problem, const Rows& rows, int split = 0) {
  attention::Plan plan;
  plan.split = split;
  Ranks ranks(make_case(problem, 1, plan), {0});
  const cuda::DeviceBuffer query = upload(problem.rows, problem.head_dim, problem.element, rows.query);
  const cuda::DeviceBuffer key = upload(problem.keys, problem.head_dim, problem.element, rows.key);
  const cuda::DeviceBuffer value = upload(problem.keys, problem.head_dim, problem.element, rows.value);
  const cuda::DeviceBuffer output(0, query.bytes(), "the output");
  const cuda::DeviceBuffer log_sum_exp(0, static_cast<std::size_t>(problem.rows) * sizeof(float), "log_sum_exp");
  attention::Operands operands;
  operands.query = query.as<void>();
  operands.key = key.as<void>();
  operands.value = value.as<void>();
  operands.output = output.as<void>();
  operands.log_sum_exp = log_sum_exp.as<float>();
  ranks[0].launch(operands, ranks.stream(0));
  ranks.finish();
  return {output.read<std::uint16_t>(output.bytes() / 2),
          log_sum_exp.read<float>(static_cast<std::size_t>(problem.rows))};
}

void expect_result(const attention::Problem& problem, const Outcome& outcome, double value, double tolerance) {
  for (std::size_t index = 0; index < outcome.bits.size(); ++index) {
    const auto result = static_cast<double>(attention_test::from_bits(outcome.bits[index], problem.element));
    ASSERT_NEAR(result, value, tolerance) << "element " << index;  // not of NaN either
  }
}

void expect_log_sum_exp(const Outcome& outcome, double value, double tolerance) {
  for (std::size_t row = 0; row < outcome.log_sum_exp.size(); ++row) {
    ASSERT_NEAR(static_cast<double>(outcome.log_sum_exp[row]), value, tolerance) << "row " << row;
  }
}

/// All scores are `logit`, to its last place: 148 by the scale. The first half of the keys have value 1, the others 0.
/// A factor from block to block that should be 1 would compound; with 148 times the scale it is far from 1 if the
/// product is rounded once and exact once (with a power of two it would be 1).
void expect_means(float logit, std::int64_t keys, int split, double log_tolerance) {
  SCOPED_TRACE(testing::Message() << keys << " keys of logit " << logit << ", split " << split);
  const attention::Problem problem = problem_of(100, keys, std::abs(logit) / 148);
  const Rows rows = constant_rows(1, logit > 0 ? 1.15625F : -1.15625F,
                                  [keys](std::int64_t key) { return key < keys / 2 ? 1.0F : 0.0F; });
  const Outcome outcome = attend(problem, rows, split);
  expect_result(problem, outcome, 0.5, 2e-3);
  expect_log_sum_exp(outcome, static_cast<double>(logit) + std::log(static_cast<double>(keys)), log_tolerance);
}

// ---- all scores alike
// -----------------------------------------------------------------------------------------------

/// The tolerance of log_sum_exp is a few units in the last place of the logit.
TEST(AttentionNumbers, EqualScoresGiveTheMeanWhateverTheLength) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int split : {0, 1}) {
    expect_means(1493, 262144, split, std::ldexp(1493, -21));
    expect_means(-28963, 8192, split, std::ldexp(28963, -21));
    expect_means(28963, 8192, split, std::ldexp(28963, -21));
  }
}

// ---- huge scores
// ----------------------------------------------------------------------------------------------------

/// Scores of 1e10: an exponent that is rounded to their last place is off by hundreds.
TEST(AttentionNumbers, HugeOperandsGiveTheirValue) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Element element : {Element::bf16, Element::fp16}) {
    for (const bool causal : {false, true}) {
      for (const int head_dim : {64, 128}) {
        SCOPED_TRACE(testing::Message() << (element == Element::bf16 ? "bf16" : "fp16") << ", head_dim " << head_dim
                                        << (causal ? ", causal" : ""));
        attention::Problem problem = causal ? causal_problem(500) : problem_of(500, 500);
        problem.element = element;
        problem.head_dim = head_dim;
        constexpr float huge = 29952;  // in both types
        const Rows rows = constant_rows(huge, huge, [](std::int64_t) { return huge; });
        expect_result(problem, attend(problem, rows), static_cast<double>(huge), 0);
      }
    }
  }
}

/// One block's keys have greater scores, by more than fp32 can round away; the others' probabilities vanish.
TEST(AttentionNumbers, TheGreatestOfHugeScoresWinsWhereverItIs) {
  SKIP_WITHOUT_HOPPER(1);
  for (const float sign : {1.0F, -1.0F}) {
    for (const std::int64_t block : {0, 1, 3}) {
      for (const int split : {0, 1}) {
        SCOPED_TRACE(testing::Message() << "sign " << sign << ", block " << block << ", split " << split);
        const attention::Problem problem = problem_of(200, 500);
        const auto is_greatest = [block](std::int64_t key) { return key / 128 == block; };
        const Rows rows = {
            [](std::int64_t) { return 29952.0F; },
            [&](std::int64_t key) { return sign * (is_greatest(key) == (sign > 0) ? 29952.0F : 26880.0F); },
            [&](std::int64_t key) { return is_greatest(key) ? 3.0F : 1.0F; }};
        expect_result(problem, attend(problem, rows, split), 3, 0);
      }
    }
  }
}

/// The maximum rises block by block from below to above the number that is subtracted before the exponentials. All
/// probabilities vanish but those of the last block that is processed, which is the first one.
TEST(AttentionNumbers, ScoresThatRiseThroughAllSizes) {
  SKIP_WITHOUT_HOPPER(1);
  const attention::Problem problem = problem_of(200, 1000);
  const Rows rows = {[](std::int64_t) { return 16384.0F; },
                     [](std::int64_t key) { return std::ldexp(1.0F, 12 - 2 * static_cast<int>(key / 128)); },
                     [](std::int64_t key) { return key < 128 ? 2.0F : 7.0F; }};
  expect_result(problem, attend(problem, rows), 2, 0);
}

// ---- causal: what later tokens can do to earlier rows
// ----------------------------------------------------------------

constexpr std::int64_t causal_rows = 500;
constexpr std::int64_t first_nan = 250;
constexpr std::int64_t last_nan = 299;

float ordinary(std::int64_t row) { return static_cast<float>(row % 7) - 3; }
float with_nan(std::int64_t row) {
  return row >= first_nan && row <= last_nan ? std::numeric_limits<float>::quiet_NaN() : ordinary(row);
}

/// Whether the bits of rows [begin, end) are the same.
bool same_rows(const Outcome& left, const Outcome& right, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t columns = 128;
  return std::equal(left.bits.begin() + begin * columns, left.bits.begin() + end * columns,
                    right.bits.begin() + begin * columns) &&
         std::equal(left.log_sum_exp.begin() + begin, left.log_sum_exp.begin() + end,
                    right.log_sum_exp.begin() + begin);
}

/// As include/xstage/attention.hpp says: up to the 128 tokens, counted from the first, that the value belongs to.
TEST(AttentionNumbers, CausalValuesThatAreNoNumbersStayInTheirGroupOfTokens) {
  SKIP_WITHOUT_HOPPER(1);
  const attention::Problem problem = causal_problem(causal_rows);
  const Outcome clean = attend(problem, {ordinary, ordinary, ordinary});
  const Outcome outcome = attend(problem, {ordinary, ordinary, with_nan});
  EXPECT_TRUE(same_rows(outcome, clean, 0, first_nan / 128 * 128));
  for (std::int64_t row = first_nan; row < causal_rows; ++row) {
    ASSERT_TRUE(std::isnan(attention_test::from_bits(outcome.bits[static_cast<std::size_t>(row * 128)], Element::bf16)))
        << "row " << row << " sees a value that is no number";
  }
}

TEST(AttentionNumbers, CausalKeysThatAreNoNumbersReachNoEarlierRow) {
  SKIP_WITHOUT_HOPPER(1);
  const attention::Problem problem = causal_problem(causal_rows);
  const Outcome clean = attend(problem, {ordinary, ordinary, ordinary});
  EXPECT_TRUE(same_rows(attend(problem, {ordinary, with_nan, ordinary}), clean, 0, first_nan));
}

}  // namespace
}  // namespace xstage::numbers_test
