/// `xstage predict` in process: lists, limits, rows as they come, and the same answer in three forms.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "cli/run.hpp"
#include "unit/audit_platform.hpp"
#include "xstage/files.hpp"

namespace xstage::cli::predict_run_test {
namespace {

using nlohmann::json;

/// The round platform's profile in a folder that is gone when the test ends.
class Predict : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / (std::string("xstage_predict_") + test->name());
    std::filesystem::create_directories(folder_);
    save(round_platform());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void save(const Platform& platform) { write_text((folder_ / "p.json").string(), format_platform(platform)); }

  /// The exit code; `words` are those after the platform.
  int run_to(std::ostream& out, const std::vector<std::string>& words) {
    const std::string profile = (folder_ / "p.json").string();
    std::vector<const char*> arguments{"xstage", "predict", "--platform", profile.c_str()};
    for (const std::string& word : words) {
      arguments.push_back(word.c_str());
    }
    std::ostringstream err;
    const int code = run(static_cast<int>(arguments.size()), arguments.data(), out, err, false);
    complaint_ = err.str();
    return code;
  }
  std::string output(const std::vector<std::string>& words) {
    std::ostringstream out;
    EXPECT_EQ(run_to(out, words), 0) << complaint_;
    return out.str();
  }
  void expect_refused(const std::vector<std::string>& words, int code, const std::string& rule) {
    std::ostringstream out;
    EXPECT_EQ(run_to(out, words), code);
    EXPECT_EQ(out.str(), "");
    EXPECT_NE(complaint_.find(rule), std::string::npos) << complaint_;
  }

  std::string complaint_;

 private:
  std::filesystem::path folder_;
};

std::vector<std::string> asked(const std::string& producers, const std::string& bytes, const std::string& gap,
                               std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--producers", producers, "--bytes", bytes, "--gap", gap});
  return more;
}

std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) {
      rows.back().push_back(cell);
    }
  }
  return rows;
}

TEST_F(Predict, TakesEveryCombinationOfItsLists) {
  const json document = json::parse(output(asked("8,128", "16000:64000:x2", "0:4:2", {"--json"})));
  ASSERT_EQ(document["rows"].size(), 2U * 3 * 3);
  ASSERT_EQ(document["points"].size(), 2U * 3);
  EXPECT_EQ(document["points"][5]["producers"], 128);
  EXPECT_EQ(document["points"][5]["operating_point"]["volume_bytes"], 128 * 64000);
  const json& row = document["rows"][2 * 3 + 1];
  EXPECT_EQ(row["producers"], 8);
  EXPECT_EQ(row["bytes_per_producer"], 64000);
  EXPECT_EQ(row["gap_us"], 2);
  const json alone = json::parse(output(asked("8", "64000", "2", {"--json"})));
  EXPECT_EQ(row, alone["rows"][0]);
  EXPECT_EQ(alone["operating_point"], document["points"][2]["operating_point"]);
  const std::string table = output(asked("8,128", "16000:64000:x2", "0:4:2"));
  EXPECT_NE(table.find("2 producer counts and 3 burst sizes"), std::string::npos) << table;
}

TEST_F(Predict, HasTheSameNumbersInCsvAndJson) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--aligned"}, {"--bursts", "4"}}) {
    std::vector<std::string> in_csv = more;
    std::vector<std::string> in_json = more;
    in_csv.emplace_back("--csv");
    in_json.emplace_back("--json");
    const auto rows = csv_rows(output(asked("64,128", "32000,128000", "0,5", in_csv)));
    const json document = json::parse(output(asked("64,128", "32000,128000", "0,5", in_json)));
    ASSERT_EQ(rows.size(), document["rows"].size() + 1);
    for (std::size_t index = 1; index < rows.size(); ++index) {
      ASSERT_EQ(rows[index].size(), rows[0].size());
      EXPECT_EQ(rows[index][0], "store16");
      for (std::size_t column = 3; column < rows[0].size(); ++column) {
        const json value = document["rows"][index - 1].value(rows[0][column], json());
        const std::string& cell = rows[index][column];
        if (value.is_null()) {
          EXPECT_TRUE(cell.empty() || rows[0][column] == "burst_index") << rows[0][column] << " " << cell;
        } else {
          EXPECT_EQ(std::stod(cell), value.get<double>()) << rows[0][column];
        }
      }
    }
  }
}

TEST_F(Predict, NamesTheLargestFittedSizeWhereItExtrapolates) {
  // Fitted from 16,000 to 64,000 bytes.
  const json document = json::parse(output(asked("128", "8000,64000,64016", "1", {"--json"})));
  EXPECT_EQ(document["rows"][0]["extrapolated_below_bytes"], 16000);
  EXPECT_TRUE(document["rows"][1]["extrapolated_beyond_bytes"].is_null());
  EXPECT_EQ(document["rows"][2]["extrapolated_beyond_bytes"], 64000);
  EXPECT_EQ(document["points"][2]["operating_point"]["extrapolated_beyond_bytes"], 64000);
  const auto rows = csv_rows(output(asked("128", "64000,64016", "1", {"--csv"})));
  ASSERT_EQ(rows[0][15], "extrapolated_beyond_bytes");
  EXPECT_EQ(rows[1][15], "");
  EXPECT_EQ(rows[2][15], "64000");
  const std::string largest = "largest fitted size is 62.5 KiB";
  EXPECT_NE(output(asked("128", "64016", "1")).find(largest), std::string::npos);
  EXPECT_NE(output(asked("128", "32000,64016", "1")).find(largest), std::string::npos);
  EXPECT_EQ(output(asked("128", "64000", "1")).find("extrapolated"), std::string::npos);
  EXPECT_EQ(output(asked("128", "32000,64000", "1")).find("extrapolated"), std::string::npos);
}

TEST_F(Predict, ShowsThatWaitingIsNoFaster) {
  int uneven_rows = 0;
  const auto check = [&](const std::vector<std::string>& more) {
    const json document = json::parse(output(asked("4,32,128", "1600:64000:x2", "0,1,10,100", more)));
    for (const json& row : document["rows"]) {
      EXPECT_GE(row["completion_coupled_period_us"], row["period_us"]) << row;
      if (row.contains("uneven_issue_us") && !row["uneven_issue_us"].is_null()) {
        EXPECT_GE(row["completion_coupled_period_us"].get<double>(),
                  row["uneven_issue_us"].get<double>() + row["gap_us"].get<double>())
            << row;
        ++uneven_rows;
      }
      if (row.contains("fixed_work_period_us")) {
        EXPECT_GE(row["fixed_work_completion_coupled_period_us"], row["fixed_work_period_us"]) << row;
      }
    }
  };
  for (const double slower : {1, 60}) {  // stores faster than the drain, and slower
    Platform platform = round_platform();
    platform.paths[0].issue_floor = {{16000, 0.5 * slower}, {64000, 2 * slower}};
    platform.paths[0].drain_unevenness = known(0.3);
    save(platform);
    check({"--json"});
    check({"--json", "--aligned"});
    check({"--json", "--bursts", "5"});
  }
  EXPECT_GT(uneven_rows, 100);
}

TEST_F(Predict, RefusesMoreRowsThanAnybodyReads) {
  expect_refused(asked("128", "32000", "0:99999:1", {"--bursts", "10000"}), 2,
                 "1 x 1 x 100000 x 10000 are 1000000000 rows: must be at most 1000000");
  expect_refused(asked("1:100:1", "16:16000:16", "0:99:1"), 2, "must be at most 1000000");
  expect_refused(asked("128", "32000", "0:1000000000:1"), 2, "names more than 100000 values");
  expect_refused(asked("128", "32000", "1", {"--bursts", "1000000000"}), 2, "--bursts");
  expect_refused(asked("128", "32000", "1", {"--csv", "--json"}), 2, "--csv");
}

TEST_F(Predict, LeavesNothingHalfWritten) {
  // Q is known from 32 producers on; the second of the points cannot be predicted.
  for (const char* form : {"--aligned", "--csv", "--json"}) {
    expect_refused(asked("128,16", "32000", "1", {"--bursts", "2", form}), 3, "16 aligned producers of 32000 bytes");
  }
  expect_refused(asked("128,133", "32000", "1"), 3, "133");
}

/// Counts what arrives; refuses it beyond `most` characters.
class Reader : public std::streambuf {
 public:
  explicit Reader(std::size_t most) : most_(most) {}
  [[nodiscard]] std::size_t offered() const { return offered_; }
  [[nodiscard]] const std::string& at_first_flush() const { return at_first_flush_; }

 protected:
  int_type overflow(int_type character) override {
    ++offered_;
    if (offered_ > most_) {
      return traits_type::eof();
    }
    text_ += traits_type::to_char_type(character);
    return character;
  }
  int sync() override {
    if (at_first_flush_.empty()) {
      at_first_flush_ = text_;
    }
    return 0;
  }

 private:
  std::size_t most_;
  std::size_t offered_ = 0;
  std::string text_;
  std::string at_first_flush_;
};

TEST_F(Predict, HandsOutTheFirstRowBeforeTheOthers) {
  for (const char* form : {"--csv", "--json", "--aligned"}) {
    Reader reader(100000000);
    std::ostream out(&reader);
    EXPECT_EQ(run_to(out, asked("128", "32000", "0:999:1", {"--bursts", "2", form})), 0);
    EXPECT_GT(reader.at_first_flush().size(), 0U);
    EXPECT_LT(reader.at_first_flush().size(), 4000U) << form;
    EXPECT_GT(reader.offered(), 50000U) << form;
  }
}

TEST_F(Predict, StopsWhenNobodyReads) {
  for (const char* form : {"--csv", "--json", "--aligned"}) {
    Reader reader(20000);
    std::ostream out(&reader);
    EXPECT_EQ(run_to(out, asked("128", "32000", "0:99999:1", {"--bursts", "10", form})), 3);
    EXPECT_LT(reader.offered(), 30000U) << form;
  }
}

}  // namespace
}  // namespace xstage::cli::predict_run_test
