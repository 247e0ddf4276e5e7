/// What a benchmark's run writes, cell by cell, and says at its end: of a benchmark that measures nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/bench_run.hpp"

namespace xstage::cli {
namespace {

using testing::HasSubstr;

struct CountOutcome : bench::RunState {
  std::vector<int> rows;
  std::optional<trace::Trace> trace;
};

struct UntracedOutcome : bench::RunState {
  std::vector<int> rows;
};

struct Cell {
  int number;
};

std::string cell_name(const Cell& cell) { return fmt::format("cell {}", cell.number); }

trace::Trace short_trace() {
  trace::Trace trace;
  trace.clocks = {{0, 0, 0}};
  trace.spans = {{0, 0, 0, 0, 0, 10, 20}};
  return trace;
}

/// Three cells with a row each; their number is it.
class BenchRun : public testing::Test {
 protected:
  BenchRun() {
    std::filesystem::create_directories(folder_);
    benchmark_.heading = "heading\n";
    benchmark_.lines = [](int row) { return fmt::format("row {}\n", row); };
    benchmark_.document = [](const CountOutcome& outcome) { return Json{{"rows", outcome.rows}}; };
    benchmark_.why_no_trace = "nothing was recorded";
    benchmark_.measure = [this](const Benchmark<CountOutcome>::Observer& observer) {
      CountOutcome outcome;
      bench::run_cells(std::vector<Cell>{{1}, {2}, {3}}, observer, outcome, [&](const Cell& cell) {
        if (at_cell_) {
          at_cell_(cell.number, outcome);
        }
        outcome.rows.push_back(cell.number);
        observer.row(cell.number);
      });
      return outcome;
    };
  }
  ~BenchRun() override { std::filesystem::remove_all(folder_); }

  ExitCode run() {
    Console console{out_, err_, false, ""};
    return run_benchmark(console, options_, benchmark_);
  }
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& name) {
    std::ifstream stream(name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  BenchOptions options_;
  Benchmark<CountOutcome> benchmark_;
  std::function<void(int cell, CountOutcome& outcome)> at_cell_;  // before its row
  std::ostringstream out_;
  std::ostringstream err_;

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(BenchRun, RowsGoToTheStandardOutputAsTheyCome) {
  benchmark_.closing = [](const CountOutcome& outcome) { return fmt::format("{} in all\n", outcome.rows.size()); };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_EQ(out_.str(), "heading\nrow 1\nrow 2\nrow 3\n3 in all\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(BenchRun, WithJsonNothingElseIsOnTheStandardOutput) {
  options_.json = true;
  options_.output = file("result.json");
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_EQ(Json::parse(out_.str())["rows"], Json({1, 2, 3}));
  EXPECT_EQ(err_.str(), "heading\nrow 1\nrow 2\nrow 3\n");
  EXPECT_EQ(Json::parse(content(options_.output))["rows"], Json({1, 2, 3}));
}

TEST_F(BenchRun, TheResultFileIsWrittenAfterEveryCell) {
  options_.output = file("result.json");
  std::vector<std::size_t> rows_on_disk;
  at_cell_ = [&](int cell, CountOutcome&) {
    rows_on_disk.push_back(cell == 1 ? 0 : Json::parse(content(options_.output))["rows"].size());
  };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_THAT(rows_on_disk, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(out_.str(), HasSubstr(fmt::format("\nWrote {} (3 rows)\n", options_.output)));
}

TEST_F(BenchRun, FailedCellsAreADeviceErrorAndTheOthersAreKept) {
  options_.output = file("result.json");
  at_cell_ = [](int cell, CountOutcome&) {
    if (cell == 2) {
      throw DeviceError("GPU lost");
    }
  };
  EXPECT_EQ(run(), ExitCode::device);
  EXPECT_EQ(err_.str(),
            fmt::format("xstage: cell 2: GPU lost\nxstage: 1 cells failed; {} has the 2 rows of the others\n",
                        options_.output));
  EXPECT_EQ(Json::parse(content(options_.output))["rows"], Json({1, 3}));
}

TEST_F(BenchRun, WrongResultsAreAFailedTest) {
  at_cell_ = [](int cell, CountOutcome& outcome) { outcome.wrong_cells += cell == 3 ? 1 : 0; };
  EXPECT_EQ(run(), ExitCode::test_failed);
  EXPECT_EQ(err_.str(), "xstage: 1 cells have wrong results\n");
}

TEST_F(BenchRun, AnInterruptKeepsTheCellsThatAreDone) {
  options_.output = file("result.json");
  at_cell_ = [](int cell, CountOutcome&) {
    if (cell == 2) {
      std::raise(SIGINT);
    }
  };
  EXPECT_EQ(run(), ExitCode::device);
  EXPECT_EQ(err_.str(), fmt::format("xstage: interrupted; {} has the 2 rows of the others\n", options_.output));
  EXPECT_EQ(Json::parse(content(options_.output))["rows"], Json({1, 2}));
}

TEST_F(BenchRun, TheTraceIsWrittenOrItsAbsenceExplained) {
  options_.trace = file("trace.json");
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_EQ(err_.str(), fmt::format("xstage: {} was not written: nothing was recorded\n", options_.trace));
  EXPECT_FALSE(std::filesystem::exists(options_.trace));
  err_.str("");
  at_cell_ = [](int, CountOutcome& outcome) { outcome.trace = short_trace(); };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(content(options_.trace), trace::perfetto_json(short_trace()));
}

TEST(BenchRunTrace, OutcomesNeedNotHaveOne) {
  EXPECT_EQ(trace_of(UntracedOutcome{}), nullptr);
  EXPECT_EQ(trace_of(CountOutcome{}), nullptr);
  CountOutcome outcome;
  outcome.trace = short_trace();
  EXPECT_EQ(trace_of(outcome), &*outcome.trace);
}

TEST(BenchRunText, RatiosHaveTheirInterval) {
  EXPECT_EQ(ratio_with_interval({1.0344, 1.021, 1.05}), "1.034 [1.021, 1.050]");
}

}  // namespace
}  // namespace xstage::cli
