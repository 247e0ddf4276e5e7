// The exchange through registers of a one-shot all-reduce: an empty slot holds a NaN, and no NaN or infinity among the
// data may be mistaken for it.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "bench/normal_pattern.hpp"
#include "ops/gemm/test/gpu/reference.hpp"
#include "ops/gemm/test/gpu/support.hpp"
#include "xstage/gemm.hpp"

namespace xstage::exchange_test {
namespace {

using gemm::Operation;
using gemm_test::Call;
using gemm_test::Case;
using gemm_test::complaint_about;
using gemm_test::make_case;
using gemm_test::make_problem;
using gemm_test::Ranks;
using gemm_test::virtual_ranks;

constexpr std::uint16_t infinity = 0x7F80;
constexpr std::uint16_t minus_infinity = 0xFF80;
/// Bits of every rounded NaN; an empty slot and a poisoned result hold 0xFFFF.
constexpr std::uint16_t rounded_nan = 0x7FFF;
/// Quiet and signalling, either sign; the last but one looks like an empty slot.
constexpr std::uint16_t nans[] = {0x7FFF, 0x7FC0, 0x7F81, 0xFFC0, 0xFFFF, 0xFF81};

constexpr std::int64_t rows = 140;  // two tiles, of the second 12 rows
constexpr std::int64_t columns = 136;
constexpr int depth_of_rank = 128;

/// One element of a rank's A.
struct Special {
  int rank = 0;
  std::int64_t row = 0;
  std::int64_t depth = 0;
  std::uint16_t bits = 0;
};

/// NaN of one rank, and NaN of all ranks in so many neighbouring rows that whole words consist of them; infinities
/// alone, two in one rank's partial sum, and of several ranks.
std::vector<Special> make_specials(int world) {
  std::vector<Special> specials;
  std::int64_t row = 0;
  for (const std::uint16_t nan : nans) {
    specials.push_back({static_cast<int>(row) % world, row, row, nan});
    ++row;
  }
  for (row = 16; row < 48; ++row) {
    for (int rank = 0; rank < world; ++rank) {
      specials.push_back({rank, row, 2 * row, nans[static_cast<std::size_t>(row + rank) % std::size(nans)]});
    }
  }
  specials.push_back({0, 50, 7, infinity});
  specials.push_back({world - 1, 51, 7, minus_infinity});
  specials.push_back({1, 52, 7, infinity});
  specials.push_back({1, 52, 9, minus_infinity});
  specials.push_back({0, 53, 7, infinity});
  specials.push_back({1, 53, 9, minus_infinity});
  for (int rank = 0; rank < world; ++rank) {
    specials.push_back({rank, 60, 5, infinity});
  }
  specials.push_back({world - 1, rows - 1, 11, infinity});
  return specials;
}

/// Expected results of a row with special elements: NaN or an infinity.
class ExpectedSpecials {
 public:
  ExpectedSpecials(const Call& call, const std::vector<Special>& specials) : call_(call) {
    for (const Special& special : specials) {
      of_row_[special.row][{special.rank, special.depth}] = special.bits;
    }
  }

  [[nodiscard]] bool has(std::int64_t row) const { return of_row_.count(row) != 0; }

  [[nodiscard]] std::uint16_t bits(std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (const auto& [place, element] : of_row_.at(row)) {
      const std::vector<float>& b = call_.host(place.first).b;
      sum += static_cast<double>(bench::from_bf16(element)) *
             static_cast<double>(b[static_cast<std::size_t>(column * depth_of_rank + place.second)]);
    }
    if (std::isnan(sum)) {
      return rounded_nan;
    }
    return sum > 0 ? infinity : minus_infinity;
  }

 private:
  const Call& call_;
  std::map<std::int64_t, std::map<std::pair<int, std::int64_t>, std::uint16_t>> of_row_;
};

/// Expects NaN or infinity in rows with special elements, and unchanged results in all others.
void expect_specials(const Call& call, int rank, const std::vector<Special>& specials,
                     const std::vector<std::uint16_t>& without) {
  const ExpectedSpecials expected(call, specials);
  const std::vector<std::uint16_t> result = call.read_result(rank, 0);
  int wrong = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto place = static_cast<std::size_t>(row * columns + column);
      const std::uint16_t right = expected.has(row) ? expected.bits(row, column) : without[place];
      if (result[place] != right && wrong++ == 0) {
        ADD_FAILURE() << std::hex << "rank " << rank << ": 0x" << result[place] << " instead of 0x" << right << std::dec
                      << " in row " << row << ", column " << column;
      }
    }
  }
  EXPECT_EQ(wrong, 0) << "elements of rank " << rank;
}

/// Both sets of slots are used several times, with special elements and then without. finish() throws if a wait was
/// given up.
void expect_specials_pass(int tile_columns, const std::vector<int>& devices) {
  const int world = static_cast<int>(devices.size());
  Plan plan;
  plan.tile_columns = tile_columns;
  plan.cluster_rows = 1;
  plan.all_reduce = AllReduceAlgorithm::one_shot;
  const Case which = make_case(make_problem(Operation::all_reduce, rows, columns, depth_of_rank * world), world, plan);
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  Call call(which, devices, 1);
  ranks.enqueue(call);
  ranks.finish();
  ASSERT_EQ(complaint_about(which, call), "");
  const std::vector<std::uint16_t> without = call.read_result(0, 0);
  const std::vector<Special> specials = make_specials(world);
  for (const Special& special : specials) {
    call.overwrite_a(special.rank, static_cast<std::size_t>(special.row * depth_of_rank + special.depth), special.bits);
  }
  for (int repetition = 0; repetition < 4; ++repetition) {
    call.poison();
    ranks.enqueue(call);
    ASSERT_NO_THROW(ranks.finish());
    for (int rank = 0; rank < world; ++rank) {
      expect_specials(call, rank, specials, without);
    }
  }
  for (std::uint64_t seed = 2; seed < 5; ++seed) {
    call.refill(seed);
    call.poison();
    ranks.enqueue(call);
    ASSERT_NO_THROW(ranks.finish());
    EXPECT_EQ(complaint_about(which, call), "") << "seed " << seed;
  }
}

TEST(GemmExchange, NansAndInfinitiesAreDataOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int tile_columns : {64, 128}) {
    for (const int world : {2, 3, 8}) {
      expect_specials_pass(tile_columns, virtual_ranks(world));
    }
  }
}

TEST(GemmExchange, NansAndInfinitiesAreDataOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const int tile_columns : {64, 128}) {
    expect_specials_pass(tile_columns, {0, 1});
  }
}

}  // namespace
}  // namespace xstage::exchange_test
