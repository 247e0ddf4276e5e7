#include "bench/plan_options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.hpp"
#include "files/csv.hpp"
#include "ops/all_to_all/problem.hpp"
#include "ops/attention/bench/cells.hpp"
#include "ops/attention/problem.hpp"
#include "ops/gemm/bench/cells.hpp"
#include "ops/gemm/layout.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_plan_options_test {
namespace {

using gemm::Operation;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int world = 2;
constexpr int multiprocessors = 132;

std::vector<GemmCell> gemm_cells(const char* operation, const char* shape) {
  return make_cells(parse_operations(operation), parse_shapes(shape), world);
}

gemm::Problem gemm_problem(const char* operation, const char* shape) {
  return gemm_cells(operation, shape).front().problem;
}

attention::Problem attention_problem(const char* shape) {
  return make_attention_cells(parse_attention_shapes(shape), world).front().problem;
}

Plan plan_with(const gemm::Problem& problem, const std::string& text) {
  return choose_plan(problem, world, multiprocessors, parse_gemm_plan(text));
}

attention::Plan plan_with(const attention::Problem& problem, const std::string& text) {
  const int ranks = problem.destination == attention::Destination::local ? 1 : world;
  return choose_plan(problem, ranks, multiprocessors, parse_attention_plan(text));
}

/// All fields, so that plans can be compared.
std::string text_of(const Plan& plan) { return fields::statement(gemm::plan_fields(), plan); }

std::string text_of(const attention::Plan& plan) { return fields::statement(attention::plan_fields(), plan); }

/// Some value of a field that can be read.
std::string some_value(const std::string& field) {
  return field == "gather" ? "push" : field == "all_reduce" ? "one_shot" : field == "store_path" ? "bulk" : "1";
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string_view word : files::split(text, ',', 1000)) {
    words.emplace_back(word.substr(word.find_first_not_of(' ')));
  }
  return words;
}

template <typename Parse>
void expect_complaint(Parse parse, const std::string& text, const std::string& part, const std::string& rule,
                      const std::string& fields) {
  EXPECT_THAT([&] { static_cast<void>(parse(text)); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("'" + part + "'"), HasSubstr(rule), HasSubstr(fields))))
      << text;
}

TEST(BenchPlanOptions, MistakesNameThePartAndTheKnownFields) {
  const auto expect_gemm = [](const std::string& text, const std::string& part, const std::string& rule) {
    expect_complaint(parse_gemm_plan, text, part, rule, gemm_plan_fields());
  };
  expect_gemm("window=2,windows=4", "windows=4", "no such field");
  expect_gemm("store_path=store16", "store_path=store16", "must be bulk");  // a GEMM has one path only
  expect_gemm("", "", "no such field");
  expect_gemm("window=2,", "", "no such field");
  expect_gemm("=2", "=2", "no such field");
  expect_gemm(" window=2", " window=2", "no such field");
  expect_gemm("window=2,stages=4,window=2", "window=2", "twice");
  expect_gemm("window", "window", "missing (window=VALUE)");
  expect_gemm("window=", "window=", "missing (window=VALUE)");
  for (const char* part : {"window=two", "window=1.5", "window=2=2", "window= 2", "window=99999999999"}) {
    expect_gemm(part, part, "whole number");
  }
  for (const char* part :
       {"drain_gb_per_s=inf", "drain_gb_per_s=nan", "drain_gb_per_s=370GB", "drain_gb_per_s=1e999"}) {
    expect_gemm(part, part, "finite number");
  }
  expect_gemm("gather=pull", "gather=pull", "push or copy_engine");
  expect_gemm("all_reduce=1", "all_reduce=1", "one_shot or two_shot");

  const auto expect_attention = [](const std::string& text, const std::string& part, const std::string& rule) {
    expect_complaint(parse_attention_plan, text, part, rule, attention_plan_fields());
  };
  expect_attention("window=2", "window=2", "no such field");
  expect_attention("split=1,split=0", "split=0", "twice");
  expect_attention("store_path=store8", "store_path=store8", "store16 or bulk");
}

TEST(BenchPlanOptions, ResultFilesHaveWhatWasNamed) {
  EXPECT_EQ(plan_overrides_json(parse_gemm_plan("gather=copy_engine,drain_gb_per_s=350.5,window=0")).dump(),
            R"({"gather":"copy_engine","drain_gb_per_s":350.5,"window":0})");
  EXPECT_EQ(plan_overrides_json(parse_gemm_plan("all_reduce=two_shot")).dump(), R"({"all_reduce":"two_shot"})");
  EXPECT_EQ(plan_overrides_json(parse_attention_plan("store_path=store16,split=-1")).dump(),
            R"({"store_path":"store16","split":-1})");
}

TEST(BenchPlanOptions, RowsHaveAllFields) {
  const Json gemm = plan_json(gemm::make_plan(gemm_problem("all_gather", "8192x8192x8192"), world, multiprocessors));
  for (const auto& field : gemm::plan_fields()) {
    EXPECT_TRUE(gemm.contains(field.name)) << field.name;
  }
  EXPECT_EQ(gemm.at("gather"), "push");
  EXPECT_EQ(gemm.at("tile_columns"), 256);
  EXPECT_EQ(gemm.at("drain_gb_per_s"), 373.4);
  EXPECT_EQ(gemm.at("cluster"), "2x1");
  EXPECT_EQ(plan_json(attention::Plan{}).dump(),
            R"({"store_path":"bulk","drain_gb_per_s":373.4,"store_interval_ns":-1,"issuers":0,"split":-1})");
  EXPECT_EQ(plan_json(all_to_all::Plan{}).dump(),
            R"({"transfer":"by_rule","chunk_bytes":0,"stages":0,"issuers":0,"peer_issuers":0})");
  const Json moe = plan_json(moe::Plan{});
  EXPECT_EQ(moe.size(), moe::plan_fields().size());
  EXPECT_EQ(moe.at("combine"), "partial_sums");
}

TEST(BenchPlanOptions, EveryFieldReachesItsPlaceInThePlan) {
  const gemm::Problem gather = gemm_problem("all_gather", "8192x8192x8192");
  EXPECT_EQ(plan_with(gather, "window=4").window, 4);
  EXPECT_EQ(plan_with(gather, "store_rows=16").store_rows, 16);
  EXPECT_EQ(plan_with(gather, "store_interval_ns=17").store_interval_ns, 17);
  EXPECT_EQ(plan_with(gather, "push_interval_ns=19").push_interval_ns, 19);
  EXPECT_EQ(plan_with(gather, "push_warps=2").push_warps, 2);
  EXPECT_EQ(plan_with(gather, "staging_chunks=3").staging_chunks, 3);
  EXPECT_EQ(plan_with(gather, "tile_columns=128").tile_columns, 128);
  EXPECT_EQ(plan_with(gather, "cluster_rows=1").cluster_rows, 1);
  EXPECT_EQ(plan_with(gather, "cluster_columns=2").cluster_columns, 2);
  EXPECT_EQ(plan_with(gather, "stages=2").stages, 2);
  EXPECT_EQ(plan_with(gather, "issuers=64").issuers, 64);
  EXPECT_EQ(plan_with(gather, "group_rows=3").group_rows, 3);
  EXPECT_EQ(plan_with(gather, "chunk_rows=512").chunk_rows, 512);
  EXPECT_EQ(plan_with(gather, "chunk_depth=1024").chunk_depth, 1024);
  EXPECT_EQ(plan_with(gather, "drain_gb_per_s=200").drain_gb_per_s, 200);
  EXPECT_EQ(plan_with(gather, "gather=copy_engine").gather, GatherPath::copy_engine);
  const gemm::Problem reduction = gemm_problem("all_reduce", "256x8192x8192");
  EXPECT_EQ(plan_with(reduction, "all_reduce=two_shot").all_reduce, AllReduceAlgorithm::two_shot);
  EXPECT_EQ(plan_with(gemm_problem("all_gather", "512x512x512"), "staging_over_ring=0").staging_over_ring, 0);
  const gemm::Problem narrow = gemm_problem("all_reduce", "16x8192x8192");
  EXPECT_EQ(plan_with(narrow, "tile_columns=64,cluster_columns=1,stage_blocks=1").stage_blocks, 1);
  EXPECT_EQ(plan_with(narrow, "tile_columns=64,cluster_columns=1,stage_blocks=2").stage_blocks, 2);

  const attention::Problem attention = attention_problem("8192x24");
  EXPECT_EQ(plan_with(attention, "issuers=100").issuers, 100);
  EXPECT_EQ(plan_with(attention, "split=0").split, 0);
  EXPECT_EQ(plan_with(attention, "split=1").split, 1);
  EXPECT_EQ(plan_with(attention, "store_interval_ns=23").store_interval_ns, 23);
  EXPECT_EQ(plan_with(attention, "drain_gb_per_s=200").drain_gb_per_s, 200);
  EXPECT_EQ(plan_with(attention, "store_path=store16").store_path, StorePath::store16);
}

TEST(BenchPlanOptions, NamingWhatTheRulePickedChangesNothing) {
  for (const GemmCell& cell : gemm_cells("reduce_scatter,all_gather,all_reduce,all_to_all", "table")) {
    const Plan picked = gemm::make_plan(cell.problem, world, multiprocessors);
    const std::string expected = text_of(picked);
    EXPECT_EQ(text_of(choose_plan(cell.problem, world, multiprocessors, std::optional<GemmPlanOverrides>())), expected);
    for (const std::string& field : words(gemm_plan_fields())) {
      GemmPlanOverrides overrides = parse_gemm_plan(field + "=" + some_value(field));
      overrides.values = picked;
      EXPECT_EQ(text_of(choose_plan(cell.problem, world, multiprocessors, overrides)), expected)
          << cell_name(cell) << " " << field;
    }
  }
  for (const AttentionCell& cell : make_attention_cells(parse_attention_shapes("table"), world)) {
    const attention::Plan picked = attention::make_plan(cell.problem, world, multiprocessors);
    for (const std::string& field : words(attention_plan_fields())) {
      AttentionPlanOverrides overrides = parse_attention_plan(field + "=" + some_value(field));
      overrides.values = picked;
      EXPECT_EQ(text_of(choose_plan(cell.problem, world, multiprocessors, overrides)), text_of(picked))
          << cell_name(cell) << " " << field;
    }
  }
}

TEST(BenchPlanOptions, OtherTilesHaveARingAndCtasOfTheirOwn) {
  const gemm::Problem problem = gemm_problem("reduce_scatter", "8192x8192x8192");
  const Plan picked = gemm::make_plan(problem, world, multiprocessors);
  ASSERT_EQ(picked.tile_columns, 256);
  const Plan narrower = plan_with(problem, "tile_columns=128");
  EXPECT_EQ(narrower.staging_chunks, 2);  // a whole tile again
  EXPECT_GT(narrower.stages, picked.stages);
  EXPECT_EQ(plan_with(problem, "tile_columns=128,stages=3").stages, 3);
  EXPECT_EQ(plan_with(problem, "tile_columns=128,staging_chunks=1").staging_chunks, 1);

  const gemm::Problem wide = gemm_problem("reduce_scatter", "2048x4096x4096");
  const gemm::Problem narrow = gemm_problem("all_reduce", "16x8192x8192");
  ASSERT_LT(gemm::make_plan(narrow, world, multiprocessors).tile_columns, 256);
  EXPECT_GE(plan_with(wide, "tile_columns=64").issuers, plan_with(wide, "tile_columns=256").issuers);
  EXPECT_LT(plan_with(narrow, "tile_columns=256,all_reduce=two_shot").issuers,
            plan_with(narrow, "tile_columns=64,all_reduce=two_shot").issuers);
  // Fewer CTAs than tiles: nothing may lie over the ring any more, and the ring is smaller.
  const gemm::Problem one_wave = gemm_problem("all_gather", "512x512x512");
  ASSERT_EQ(gemm::make_plan(one_wave, world, multiprocessors).staging_over_ring, 1);
  EXPECT_EQ(plan_with(one_wave, "issuers=2").staging_over_ring, 0);
}

TEST(BenchPlanOptions, PausesFollowWhatTheyAreComputedFrom) {
  const gemm::Problem problem = gemm_problem("reduce_scatter", "8192x8192x8192");
  const Plan picked = gemm::make_plan(problem, world, multiprocessors);
  const Plan half_rate = plan_with(problem, fmt::format("drain_gb_per_s={}", picked.drain_gb_per_s / 2));
  EXPECT_NEAR(half_rate.store_interval_ns, 2 * picked.store_interval_ns, 1);
  EXPECT_NEAR(half_rate.push_interval_ns, 2 * picked.push_interval_ns, 1);
  EXPECT_NEAR(plan_with(problem, "store_rows=64").store_interval_ns, 2 * picked.store_interval_ns, 1);
  EXPECT_NEAR(plan_with(problem, "issuers=66").store_interval_ns, picked.store_interval_ns / 2, 1);
  const Plan named = plan_with(problem, "drain_gb_per_s=10,store_interval_ns=7");
  EXPECT_EQ(named.store_interval_ns, 7);
  EXPECT_GT(named.push_interval_ns, picked.push_interval_ns);

  const attention::Problem attention = attention_problem("8192x24");
  const attention::Plan rule = attention::make_plan(attention, world, multiprocessors);
  EXPECT_NEAR(plan_with(attention, fmt::format("drain_gb_per_s={}", rule.drain_gb_per_s / 2)).store_interval_ns,
              2 * rule.store_interval_ns, 1);
  EXPECT_NEAR(plan_with(attention, "issuers=66").store_interval_ns, rule.store_interval_ns / 2, 1);
}

TEST(BenchPlanOptions, ChoicesThatWouldNoLongerFitAreAdapted) {
  const gemm::Problem long_reduction = gemm_problem("all_reduce", "1024x8192x8192");
  ASSERT_EQ(gemm::make_plan(long_reduction, world, multiprocessors).all_reduce, AllReduceAlgorithm::two_shot);
  EXPECT_LE(plan_with(long_reduction, "all_reduce=one_shot").tile_columns, 128);
  EXPECT_THAT([&] { static_cast<void>(plan_with(long_reduction, "all_reduce=one_shot,tile_columns=256")); },
              ThrowsMessage<InputError>(HasSubstr("tile_columns is 256")));

  const gemm::Problem problem = gemm_problem("reduce_scatter", "8192x8192x8192");
  ASSERT_EQ(gemm::make_plan(problem, world, multiprocessors).cluster_rows, 2);
  EXPECT_EQ(plan_with(problem, "cluster_columns=2").cluster_rows, 1);
  EXPECT_EQ(plan_with(problem, "cluster_columns=1").cluster_rows, 2);
  EXPECT_THAT([&] { static_cast<void>(plan_with(problem, "cluster_rows=2,cluster_columns=2")); },
              ThrowsMessage<InputError>(HasSubstr("one or two CTAs")));
}

TEST(BenchPlanOptions, AttentionWithoutPeersHearsOnlyOfWhatItComputes) {
  attention::Problem local = attention_problem("8192x24");
  local.destination = attention::Destination::local;
  const attention::Plan rule = attention::make_plan(local, 1, multiprocessors);
  EXPECT_EQ(text_of(plan_with(local, "store_path=store16,drain_gb_per_s=0.01,store_interval_ns=-2")), text_of(rule));
  EXPECT_EQ(plan_with(local, "issuers=77,split=1").issuers, 77);
  EXPECT_EQ(plan_with(local, "split=1").split, 1);
  attention::Problem twin = attention_problem("8192x24");
  twin.destination = attention::Destination::twin;
  EXPECT_EQ(plan_with(twin, "store_path=store16").store_path, StorePath::store16);
}

TEST(BenchPlanOptions, ValuesThatBreakARuleAreRefusedByTheCheckOfPlans) {
  const auto expect_gemm = [](const std::string& text, const std::string& complaint) {
    EXPECT_THAT([&] { static_cast<void>(plan_with(gemm_problem("reduce_scatter", "8192x8192x8192"), text)); },
                ThrowsMessage<InputError>(HasSubstr("plan: " + complaint)));
  };
  expect_gemm("window=3", "window is 3");
  expect_gemm("stages=12,tile_columns=256", "");
  expect_gemm("issuers=133", "issuers is 133");
  expect_gemm("staging_over_ring=1", "staging_over_ring is 1");
  expect_gemm("drain_gb_per_s=-1", "drain_gb_per_s is -1: it must be a finite number of at least 0.1");
  expect_gemm("drain_gb_per_s=1e-9", "drain_gb_per_s is 1e-09: it must be a finite number of at least 0.1");
  expect_gemm("cluster_rows=65536,cluster_columns=65536", "cluster_rows is 65536: it must be 1 or 2");
  expect_gemm("chunk_rows=0", "chunk_rows is 0");
  expect_gemm("staging_over_ring=2", "staging_over_ring is 2");
  expect_gemm("store_interval_ns=-2", "store_interval_ns is -2: it must be at least 0, or -1 for the rule");

  const auto expect_attention = [](const char* shape, const std::string& text, const std::string& complaint) {
    EXPECT_THAT([&] { static_cast<void>(plan_with(attention_problem(shape), text)); },
                ThrowsMessage<InputError>(HasSubstr("plan: " + complaint)));
  };
  expect_attention("8192x24", "issuers=133", "issuers is 133");
  expect_attention("8192x24", "store_interval_ns=-2", "store_interval_ns is -2");
  expect_attention("8192x24", "drain_gb_per_s=0.09", "drain_gb_per_s is 0.09");
  expect_attention("8192x24:causal", "split=1", "split is 1");
}

/// Whatever number stands on the command line is refused, or gives a plan that a handle takes as it is.
TEST(BenchPlanOptions, NoNumberDoesHarm) {
  for (const GemmCell& cell : gemm_cells("reduce_scatter,all_gather,all_reduce,all_to_all", "small")) {
    for (const std::string& field : words(gemm_plan_fields())) {
      if (some_value(field) != "1") {
        continue;
      }
      for (const int value : {std::numeric_limits<int>::min(), -64, -2, -1, 0, 1, 2, 3, 4, 7, 64, 100, 128, 256, 65536,
                              std::numeric_limits<int>::max()}) {
        for (const char* more : {"", ",gather=copy_engine"}) {
          const std::string text = fmt::format("{}={}{}", field, value, more);
          try {
            const Plan plan = plan_with(cell.problem, text);
            EXPECT_EQ(text_of(gemm::complete_plan(cell.problem, plan, world, multiprocessors)), text_of(plan))
                << cell_name(cell) << " " << text;
          } catch (const InputError& error) {
            EXPECT_THAT(error.what(), HasSubstr("plan: ")) << text;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace xstage::bench::bench_plan_options_test
