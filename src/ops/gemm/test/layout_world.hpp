#pragma once
/// Random problems of every operation, with the layouts of all ranks.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ops/gemm/bench/sampled_result.hpp"
#include "ops/gemm/layout.hpp"

namespace xstage::gemm {

inline const std::vector<Operation> all_operations = {Operation::gemm, Operation::reduce_scatter, Operation::all_gather,
                                                      Operation::all_reduce, Operation::all_to_all};

class Random {
 public:
  int between(int least, int most) {
    return least + static_cast<int>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }

 private:
  std::mt19937 bits_{7};
};

/// A problem, its plan, and the layouts of all ranks.
struct World {
  bench::GemmCell cell;
  Plan plan;
  std::vector<Layout> layouts;

  [[nodiscard]] const Problem& problem() const { return cell.problem; }
  [[nodiscard]] const Layout& of(int rank) const { return layouts[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] RowRange rows_of(int rank) const { return row_range(cell.problem.m, rank, cell.ranks); }
  /// Columns that a rank owns in an all-reduce in two shots: units of 8 are shared like rows.
  [[nodiscard]] RowRange columns_of(int rank) const {
    const RowRange units = row_range(cell.problem.n / 8, rank, cell.ranks);
    return {units.begin * 8, units.count * 8};
  }
  /// All-reduce in one shot: every rank adds up everything.
  [[nodiscard]] bool exchanges() const {
    return cell.problem.operation == Operation::all_reduce && plan.all_reduce == AllReduceAlgorithm::one_shot &&
           cell.ranks > 1;
  }
  [[nodiscard]] std::string text() const {
    return statement(cell.problem, plan) + " on " + std::to_string(cell.ranks) + " ranks";
  }
};

inline World make_world(const Problem& problem, const Plan& plan, int ranks) {
  check_problem(problem, ranks);
  World made{{problem, ranks}, complete_plan(problem, plan, ranks, 132), {}};
  for (int rank = 0; rank < ranks; ++rank) {
    made.layouts.push_back(make_layout(problem, made.plan, rank, ranks));
  }
  return made;
}

inline Problem random_problem(Operation operation, int world, Random& random) {
  Problem problem;
  problem.operation = operation;
  // Ranks without rows; odd numbers of them; the last rank with a row of tiles less than the others.
  const int kind = random.between(0, 2);
  problem.m = kind == 0   ? random.between(1, 2 * world)
              : kind == 1 ? 2 * random.between(0, 300) + 1
                          : 129 * world - random.between(0, world - 1);
  problem.n = 8 * world * random.between(1, 12);
  problem.k = 8 * world * random.between(1, 20);
  if (operation == Operation::all_to_all) {
    problem.head_dim = random.between(0, 1) == 0 ? 64 : 128;
    problem.n = 0;
    for (int part = random.between(1, 3); part > 0; --part) {
      problem.parts.push_back({world * random.between(1, 2), part == 1, part > 1});
      problem.n += problem.parts.back().heads * problem.head_dim;
    }
  } else if (operation == Operation::gemm || operation == Operation::all_gather) {
    problem.gated = random.between(0, 2) == 0;
    problem.n *= 2;
  } else {
    problem.n = 8 * random.between(1, 12 * world);  // not even one unit of 8 columns for each rank
  }
  return problem;
}

inline World random_world(Operation operation, int world, Random& random) {
  const Problem problem = random_problem(operation, world, random);
  Plan plan;
  plan.tile_columns = (problem.gated || operation == Operation::all_to_all ? 128 : 64) << random.between(0, 1);
  plan.cluster_rows = random.between(1, 2);
  plan.cluster_columns = plan.cluster_rows == 2 ? 1 : random.between(1, 2);
  plan.chunk_rows = 128 * random.between(1, 2);
  plan.chunk_depth = 64 * random.between(0, 3);
  plan.all_reduce = random.between(0, 1) == 0 ? AllReduceAlgorithm::one_shot : AllReduceAlgorithm::two_shot;
  return make_world(problem, plan, world);
}

/// Runs `test` on random problems of every number of ranks.
template <typename Test>
void for_random_worlds(const std::vector<Operation>& chosen, Test&& test) {
  Random random;
  for (const Operation operation : chosen) {
    for (int ranks = 1; ranks <= max_world; ++ranks) {
      for (int repetition = 0; repetition < 20; ++repetition) {
        const World world = random_world(operation, operation == Operation::gemm ? 1 : ranks, random);
        SCOPED_TRACE(world.text());
        test(world);
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

}  // namespace xstage::gemm
