// Rules of an attention's problem, each refused with its value; who owns which rows; what the heap has to hold.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "fabric/call_parameters.hpp"
#include "ops/attention/problem.hpp"
#include "xstage/attention.hpp"
#include "xstage/error.hpp"

namespace xstage::attention::problem_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Destination destinations[] = {Destination::local, Destination::to_owners, Destination::twin};

Problem valid() {
  Problem problem;
  problem.sequences = 3;
  problem.rows = 1000;
  problem.keys = 777;
  problem.heads = 32;
  problem.kv_heads = 8;
  return problem;
}

std::string refusal(const Problem& problem, int world) {
  try {
    check_problem(problem, world);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

template <typename Change>
std::string refusal_with(int world, Change&& change) {
  Problem problem = valid();
  change(problem);
  return refusal(problem, world);
}

TEST(AttentionProblem, ValidOnesPass) {
  for (const Destination destination : destinations) {
    for (const int world : {1, 2, 4, 8}) {
      Problem problem = valid();
      problem.destination = destination;
      EXPECT_EQ(refusal(problem, world), "");
      problem.head_dim = 64;
      problem.element = Element::fp16;
      problem.scale = 0.125F;
      problem.causal = true;
      problem.keys = problem.rows;
      EXPECT_EQ(refusal(problem, world), "");
      problem.rows = problem.keys = 1;  // fewer than ranks
      EXPECT_EQ(refusal(problem, world), "");
    }
  }
}

TEST(AttentionProblem, RanksAreOneToEight) {
  for (const int world : {-1, 0, 9}) {
    EXPECT_THAT(refusal(valid(), world), AllOf(HasSubstr(std::to_string(world) + " ranks"), HasSubstr("1 to 8")));
  }
}

TEST(AttentionProblem, ExtentsAreInRange) {
  for (const std::int64_t value :
       {std::int64_t{-1}, std::int64_t{0}, (std::int64_t{1} << 30U) + 1, std::numeric_limits<std::int64_t>::max()}) {
    const std::string rule = " is " + std::to_string(value) + ": it must be between 1 and 1073741824";
    EXPECT_THAT(refusal_with(1, [value](Problem& problem) { problem.sequences = value; }), "sequences" + rule);
    EXPECT_THAT(refusal_with(1, [value](Problem& problem) { problem.rows = value; }), "rows" + rule);
    EXPECT_THAT(refusal_with(1, [value](Problem& problem) { problem.keys = value; }), "keys" + rule);
  }
}

TEST(AttentionProblem, HeadsAreSharedByTheRanks) {
  for (const int heads : {0, -8}) {
    const std::string rule = "heads is " + std::to_string(heads) + ": it must be at least 1";
    EXPECT_THAT(refusal_with(1, [heads](Problem& problem) { problem.heads = heads; }), rule);
    EXPECT_THAT(refusal_with(1, [heads](Problem& problem) { problem.kv_heads = heads; }), "kv_" + rule);
  }
  EXPECT_THAT(refusal_with(8, [](Problem& problem) { problem.heads = 36; }),
              HasSubstr("heads is 36: it must be a multiple of the 8 ranks"));
  EXPECT_THAT(refusal_with(8, [](Problem& problem) { problem.kv_heads = 4; }),
              HasSubstr("kv_heads is 4: it must be a multiple of the 8 ranks"));
  EXPECT_EQ(refusal_with(4, [](Problem& problem) { problem.kv_heads = 4; }), "");
}

TEST(AttentionProblem, HeadsOfKeysServeAsManyHeadsOfQueriesEach) {
  EXPECT_THAT(refusal_with(2, [](Problem& problem) { problem.kv_heads = 12; }),
              HasSubstr("heads is 32, kv_heads is 12: heads must be a multiple of kv_heads"));
  EXPECT_THAT(refusal_with(2, [](Problem& problem) { problem.kv_heads = 64; }),
              HasSubstr("heads is 32, kv_heads is 64"));
}

TEST(AttentionProblem, HeadsHaveOneOfTwoSizes) {
  for (const int head_dim : {-64, 0, 32, 96, 256}) {
    EXPECT_THAT(refusal_with(1, [head_dim](Problem& problem) { problem.head_dim = head_dim; }),
                "head_dim is " + std::to_string(head_dim) + ": it must be 64 or 128");
  }
}

TEST(AttentionProblem, CausalHasAsManyKeysAsRows) {
  EXPECT_THAT(refusal_with(1, [](Problem& problem) { problem.causal = true; }),
              AllOf(HasSubstr("causal: keys is 777, rows is 1000"), HasSubstr("both must be equal")));
}

TEST(AttentionProblem, ScaleIsFiniteAndNotNegative) {
  const auto with_scale = [](float scale) {
    return refusal_with(1, [scale](Problem& problem) { problem.scale = scale; });
  };
  EXPECT_THAT(with_scale(-0.5F), HasSubstr("scale is -0.5: it must be finite and positive, or 0"));
  EXPECT_THAT(with_scale(std::numeric_limits<float>::infinity()), HasSubstr("scale is inf"));
  EXPECT_THAT(with_scale(std::numeric_limits<float>::quiet_NaN()), HasSubstr("scale is nan"));
  EXPECT_EQ(with_scale(0), "");
}

TEST(AttentionProblem, TilesAreCountedIn32Bits) {
  const auto with_sequences = [](std::int64_t sequences) {
    Problem problem;
    problem.sequences = sequences;
    problem.rows = problem.keys = 1;
    problem.heads = problem.kv_heads = 8;
    return refusal(problem, 8);
  };
  EXPECT_EQ(with_sequences(1 << 27), "");
  EXPECT_THAT(with_sequences((1 << 27) + 1),
              HasSubstr("sequences * heads is 1073741832: it must be at most 1073741824"));
}

/// 8 heads on 4 ranks: of each rank's 2 heads 2^30 rows, of all heads a quarter of the rows, of all heads all rows.
TEST(AttentionProblem, RowsOfResultsAreCountedIn32Bits) {
  const auto with = [](Destination destination, std::int64_t rows) {
    Problem problem;
    problem.rows = rows;
    problem.keys = 1;
    problem.heads = problem.kv_heads = 8;
    problem.destination = destination;
    return refusal(problem, 4);
  };
  constexpr std::int64_t most = std::int64_t{1} << 30U;
  const std::string rule = "results have 2147483648 rows of one head on a rank: there must be fewer than 2147483648";
  EXPECT_EQ(with(Destination::local, most - 1), "");
  EXPECT_THAT(with(Destination::local, most), HasSubstr(rule));
  EXPECT_EQ(with(Destination::to_owners, most - 4), "");
  EXPECT_THAT(with(Destination::to_owners, most - 3), HasSubstr(rule));
  EXPECT_EQ(with(Destination::twin, most / 4 - 1), "");
  EXPECT_THAT(with(Destination::twin, most / 4), HasSubstr(rule));
}

TEST(AttentionProblem, RowsOfKeysAreCountedIn32Bits) {
  Problem problem;
  problem.sequences = 4;
  problem.rows = 1;
  problem.heads = problem.kv_heads = 4;
  problem.keys = (1 << 28) - 1;
  EXPECT_EQ(refusal(problem, 2), "");
  problem.keys += 1;
  EXPECT_THAT(refusal(problem, 2), HasSubstr("keys and values have 2147483648 rows of one head on a rank"));
  EXPECT_EQ(refusal(problem, 4), "");
}

TEST(AttentionProblem, EveryRowHasOneOwnerAndTheLastRanksHaveFewer) {
  for (int world = 1; world <= max_world; ++world) {
    for (std::int64_t rows = 1; rows <= 200; ++rows) {
      std::int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const RowRange range = row_range(rows, rank, world);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.count, 0);
        EXPECT_LE(range.count, (rows + world - 1) / world);
        next += range.count;
      }
      EXPECT_EQ(next, rows) << world << " ranks";
      EXPECT_EQ(row_range(rows, 0, world).count, (rows + world - 1) / world);
    }
  }
  EXPECT_EQ(row_range(5, 2, 4).count, 1);
  EXPECT_EQ(row_range(5, 3, 4).count, 0);
}

TEST(AttentionProblem, ResultsHaveTheRowsOfTheirDestination) {
  Problem problem = valid();
  problem.rows = 1001;  // 251, 251, 251, 248
  constexpr std::size_t row_bytes = std::size_t{3} * 32 * 128 * 2;
  problem.destination = Destination::to_owners;
  EXPECT_EQ(result_bytes(problem, 0, 4), 251 * row_bytes);
  EXPECT_EQ(result_bytes(problem, 3, 4), 248 * row_bytes);
  EXPECT_EQ(symmetric_result_bytes(problem, 4), 251 * row_bytes);
  problem.rows = 2;
  EXPECT_EQ(result_bytes(problem, 3, 4), 0U);
  problem.rows = 1001;
  problem.destination = Destination::twin;
  EXPECT_EQ(result_bytes(problem, 3, 4), 1001 * row_bytes);
  EXPECT_EQ(symmetric_result_bytes(problem, 4), 1001 * row_bytes);
  problem.destination = Destination::local;
  EXPECT_EQ(result_bytes(problem, 3, 4), 0U);
  EXPECT_EQ(symmetric_result_bytes(problem, 4), 0U);
}

TEST(AttentionProblem, ASlabHasSixtyFourRowsOfOneSequence) {
  Problem problem = valid();
  problem.destination = Destination::to_owners;
  problem.rows = 128;
  EXPECT_EQ(slabs(problem), 3 * 2);
  problem.rows = 129;
  EXPECT_EQ(slabs(problem), 3 * 3);
  for (const Destination destination : {Destination::local, Destination::twin}) {
    problem.destination = destination;
    EXPECT_EQ(slabs(problem), 0);
  }
}

TEST(AttentionProblem, TheHeapHoldsSignalsAndResults) {
  const auto padded = [](std::size_t bytes) { return (bytes + 1023) / 1024 * 1024; };
  const std::size_t pad = kernels::CallPad::arrivals * 4;
  Problem problem = valid();
  EXPECT_EQ(heap_bytes(problem, 4), padded(pad));
  problem.destination = Destination::twin;
  EXPECT_EQ(heap_bytes(problem, 4), padded(pad) + padded(std::size_t{3} * 1000 * 32 * 128 * 2));
  problem.destination = Destination::to_owners;
  problem.rows = 100001;
  problem.sequences = 1;
  problem.heads = problem.kv_heads = 2;
  problem.head_dim = 64;
  EXPECT_EQ(heap_bytes(problem, 2), padded(pad + std::size_t{1563} * 4) + padded(std::size_t{50001} * 2 * 64 * 2));
  problem.heads = 3;
  EXPECT_THROW(static_cast<void>(heap_bytes(problem, 2)), InputError);
}

TEST(AttentionProblem, OperationsAreThoseOfTwoProducts) {
  Problem problem = valid();
  EXPECT_EQ(flops(problem), 4.0 * 3 * 32 * 1000 * 777 * 128);
  problem.causal = true;
  problem.keys = 1000;
  EXPECT_EQ(flops(problem), 2.0 * 3 * 32 * 1000 * 1000 * 128);
  problem.rows = problem.keys = 1 << 30U;  // no 64-bit integer holds it
  EXPECT_EQ(flops(problem), 2.0 * 3 * 32 * std::ldexp(1.0, 60) * 128);
}

/// Ranks that disagree on any of these would corrupt each other's results, or measure something else.
TEST(AttentionProblem, StatementsDifferWhereRanksMustAgree) {
  const Problem problem = valid();
  const Plan plan = make_plan(problem, 1, 132);
  std::set<std::string> statements{statement(problem, plan)};
  const auto with_problem = [&](const char* what, auto change) {
    Problem changed = problem;
    change(changed);
    EXPECT_TRUE(statements.insert(statement(changed, plan)).second) << what;
  };
  const auto with_plan = [&](const char* what, auto change) {
    Plan changed = plan;
    change(changed);
    EXPECT_TRUE(statements.insert(statement(problem, changed)).second) << what;
  };
  with_problem("sequences", [](Problem& other) { other.sequences = 4; });
  with_problem("rows", [](Problem& other) { other.rows = 1001; });
  with_problem("keys", [](Problem& other) { other.keys = 778; });
  with_problem("heads", [](Problem& other) { other.heads = 64; });
  with_problem("kv_heads", [](Problem& other) { other.kv_heads = 4; });
  with_problem("head_dim", [](Problem& other) { other.head_dim = 64; });
  with_problem("causal", [](Problem& other) { other.causal = true; });
  with_problem("element", [](Problem& other) { other.element = Element::fp16; });
  with_problem("scale", [](Problem& other) { other.scale = 0.1F; });
  with_problem("scale, next float", [](Problem& other) { other.scale = std::nextafter(0.1F, 1.0F); });
  with_problem("to_owners", [](Problem& other) { other.destination = Destination::to_owners; });
  with_problem("twin", [](Problem& other) { other.destination = Destination::twin; });
  with_plan("issuers", [](Plan& other) { other.issuers -= 1; });  // and every other field: plan_fields_test.cpp
  EXPECT_THAT(statement(problem, plan), HasSubstr(" split=" + std::to_string(plan.split)));  // as its field is called
}

/// Flags of another problem's projection would be waited for in vain, or passed too early.
TEST(AttentionProblem, FlagsOfArrivalsMustBeThoseOfTheOperands) {
  Problem problem;
  problem.rows = problem.keys = 1001;
  problem.heads = 8;
  problem.kv_heads = 4;
  problem.destination = Destination::to_owners;
  const std::uint32_t flags[2] = {};
  const TileArrivals query{.flags = flags,
                           .next_call = flags + 1,
                           .source_flags = 64,
                           .source_rows = 501,
                           .column_tiles = 2,
                           .tile_columns = 256};
  TileArrivals key = query;
  key.column_tiles = 1;
  const InputArrivals good{query, key, key};
  EXPECT_NO_THROW(check_arrivals(problem, 2, good));
  const auto refused = [&](auto change, auto change_problem) {
    InputArrivals arrivals = good;
    Problem other = problem;
    change(arrivals);
    change_problem(other);
    try {
      check_arrivals(other, 2, arrivals);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto refused_flags = [&](auto change) { return refused(change, [](Problem&) {}); };
  const auto refused_problem = [&](auto change) { return refused([](InputArrivals&) {}, change); };
  EXPECT_THAT(refused_flags([](InputArrivals& arrivals) { arrivals.key.flags = nullptr; }),
              HasSubstr("key has no flags"));
  EXPECT_THAT(refused_flags([](InputArrivals& arrivals) { arrivals.value.source_rows = 500; }),
              HasSubstr("value has 500 rows from each rank: with 1001 rows of 2 ranks it must be 501"));
  EXPECT_THAT(refused_flags([](InputArrivals& arrivals) { arrivals.query.tile_columns = 64; }),
              HasSubstr("query comes in tiles of 64 columns: they must hold heads of 128"));
  EXPECT_THAT(refused_flags([](InputArrivals& arrivals) { arrivals.value.column_tiles = 2; }),
              HasSubstr("value has 2 tiles of 256 columns: its 256 columns need another number"));
  EXPECT_THAT(refused_flags([](InputArrivals& arrivals) { ++arrivals.value.source_flags; }),
              HasSubstr("value and query belong to different launches"));
  EXPECT_THAT(refused_problem([](Problem& other) { other.destination = Destination::local; }),
              HasSubstr("the destination is local"));
  EXPECT_THAT(refused_problem([](Problem& other) { other.sequences = 2; }), HasSubstr("2 sequences"));
  EXPECT_THAT(refused_problem([](Problem& other) { other.keys = 1000; }), HasSubstr("1000 keys"));
}

}  // namespace
}  // namespace xstage::attention::problem_test
