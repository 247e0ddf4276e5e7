/// What a benchmark's run writes, cell by cell, and says at its end: of a benchmark that measures nothing.

#include <fmt/format.h>
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
#include "report/result_file.hpp"
#include "xstage/trace.hpp"

namespace xstage::cli::bench_cli_run_test {
namespace {

using testing::HasSubstr;

trace::Trace short_trace() {
  trace::Trace trace;
  trace.clocks = {{0, 0, 0}};
  trace.spans = {{0, 0, 0, 0, 0, 10, 20}};
  return trace;
}

bench::CellHead cell_of(int number) {
  bench::RowHead row;
  row.key = {{"number", number}};
  row.shape = fmt::format("shape {}", number);
  row.variant = "counted";
  return {fmt::format("cell {}", number), {row}};
}

/// The numbers of the rows in a result.
std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> numbers;
  const Json document = Json::parse(text);
  for (const Json& row : document.at("rows")) {
    numbers.push_back(row.at("number"));
  }
  return numbers;
}

/// Three cells with a row each; their number is it.
class BenchRun : public testing::Test {
 protected:
  BenchRun() {
    std::filesystem::create_directories(folder_);
    target_.devices = {};
    benchmark_.name = "counting";
    benchmark_.cells = {cell_of(1), cell_of(2), cell_of(3)};
    benchmark_.why_no_trace = "nothing was recorded";
    benchmark_.measure = [this](const std::vector<bench::CellHead>& cells, const bench::Observer& observer) {
      bench::Outcome outcome;
      bench::run_cells(cells, observer, outcome, [&](std::size_t index) {
        if (at_cell_) {
          at_cell_(static_cast<int>(index) + 1, outcome);
        }
        bench::Row row;
        row.head = cells[index].rows.front();
        row.times.trials_us = {1};
        outcome.rows.push_back(row);
        observer.row(row);
      });
      return outcome;
    };
  }
  ~BenchRun() override { std::filesystem::remove_all(folder_); }

  ExitCode run() {
    Console console{out_, err_, false, ""};
    return run_benchmark(console, options_, target_, benchmark_);
  }
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& name) {
    std::ifstream stream(name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  BenchOptions options_;
  BenchTarget target_;
  Benchmark benchmark_;
  std::function<void(int cell, bench::Outcome& outcome)> at_cell_;  // before its row
  std::ostringstream out_;
  std::ostringstream err_;

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(BenchRun, RowsGoToTheStandardOutputAsTheyCome) {
  benchmark_.closing = [](const bench::Outcome& outcome) { return fmt::format("{} in all\n", outcome.rows.size()); };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_THAT(out_.str(), testing::ContainsRegex("shape 1 .*\nshape 2 .*\nshape 3 .*\n3 in all\n"));
  EXPECT_THAT(out_.str(), testing::EndsWith(" s  3 cells\n"));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(BenchRun, WithJsonNothingElseIsOnTheStandardOutput) {
  options_.json = true;
  options_.output = file("result.json");
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_THAT(numbers_of(out_.str()), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(err_.str(), HasSubstr("shape 3"));
  EXPECT_THAT(numbers_of(content(options_.output)), testing::ElementsAre(1, 2, 3));
}

/// How a result was measured stands in its file, whatever the benchmark.
TEST_F(BenchRun, FileSaysHowItWasMeasured) {
  options_.json = true;
  benchmark_.run.sustained = bench::Sustained::readme;
  benchmark_.header["ratios"] = "of time";
  benchmark_.add_findings = [](Json& document, const bench::Outcome& outcome) {
    document["findings"] = outcome.rows.size();
  };
  EXPECT_EQ(run(), ExitCode::success);
  const Json document = Json::parse(out_.str());
  EXPECT_EQ(document.at("bench"), "counting");
  EXPECT_EQ(document.at("rest_ms"), 15);
  EXPECT_EQ(document.at("multicast"), "off");
  EXPECT_THAT(document.at("timing").get<std::string>(), HasSubstr("each on a GPU that has rested for 15 ms"));
  EXPECT_THAT(document.at("sustained").get<std::string>(), HasSubstr("without rests for 2 s"));
  EXPECT_TRUE(document.at("seconds").is_number());
  EXPECT_EQ(document.at("ratios"), "of time");
  EXPECT_EQ(document.at("findings"), 3);
}

TEST_F(BenchRun, ListMeasuresNothing) {
  options_.list = true;
  options_.output = file("result.json");
  at_cell_ = [](int, bench::Outcome&) { FAIL() << "a cell was measured"; };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_THAT(numbers_of(out_.str()), testing::ElementsAre(1, 2, 3));
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST_F(BenchRun, TheResultFileIsWrittenAfterEveryCell) {
  options_.output = file("result.json");
  std::vector<std::size_t> rows_on_disk;
  at_cell_ = [&](int cell, bench::Outcome&) {
    rows_on_disk.push_back(cell == 1 ? 0 : numbers_of(content(options_.output)).size());
  };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_THAT(rows_on_disk, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(out_.str(), HasSubstr(fmt::format("\nWrote {} (3 rows)\n", options_.output)));
}

TEST_F(BenchRun, FailedCellsAreADeviceErrorAndTheOthersAreKept) {
  options_.output = file("result.json");
  at_cell_ = [](int cell, bench::Outcome&) {
    if (cell == 2) {
      throw DeviceError("GPU lost");
    }
  };
  EXPECT_EQ(run(), ExitCode::device);
  EXPECT_EQ(err_.str(),
            fmt::format("xstage: cell 2: GPU lost\nxstage: 1 cells failed; {} has the 2 rows of the others\n",
                        options_.output));
  EXPECT_THAT(numbers_of(content(options_.output)), testing::ElementsAre(1, 3));
}

TEST_F(BenchRun, WrongResultsAreAFailedTest) {
  at_cell_ = [](int cell, bench::Outcome& outcome) { outcome.wrong_cells += cell == 3 ? 1 : 0; };
  EXPECT_EQ(run(), ExitCode::test_failed);
  EXPECT_EQ(err_.str(), "xstage: 1 cells have wrong results\n");
}

TEST_F(BenchRun, AnInterruptKeepsTheCellsThatAreDone) {
  options_.output = file("result.json");
  at_cell_ = [](int cell, bench::Outcome&) {
    if (cell == 2) {
      std::raise(SIGINT);
    }
  };
  EXPECT_EQ(run(), ExitCode::device);
  EXPECT_EQ(err_.str(), fmt::format("xstage: interrupted; {} has the 2 rows of the others\n", options_.output));
  EXPECT_THAT(numbers_of(content(options_.output)), testing::ElementsAre(1, 2));
}

TEST_F(BenchRun, TheTraceIsWrittenOrItsAbsenceExplained) {
  options_.trace = file("trace.json");
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_EQ(err_.str(), fmt::format("xstage: {} was not written: nothing was recorded\n", options_.trace));
  EXPECT_FALSE(std::filesystem::exists(options_.trace));
  err_.str("");
  at_cell_ = [](int, bench::Outcome& outcome) { outcome.trace = short_trace(); };
  EXPECT_EQ(run(), ExitCode::success);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(content(options_.trace), trace::perfetto_json(short_trace()));
}

}  // namespace
}  // namespace xstage::cli::bench_cli_run_test
