/// The tool in process: exit codes, which stream says what, and JSON that parses. Files and signals: tests/cli.

#include "cli/run.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/exit_code.hpp"
#include "unit/audit_platform.hpp"
#include "xstage/files.hpp"

namespace xstage::cli::cli_run_test {
namespace {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

Outcome run_tool(const std::vector<std::string>& words) {
  std::vector<const char*> arguments{"xstage"};
  for (const std::string& word : words) {
    arguments.push_back(word.c_str());
  }
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(arguments.size()), arguments.data(), out, err, false);
  return {code, out.str(), err.str()};
}

/// A folder with the round platform's profile, gone when the test ends.
class CliRun : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::temp_directory_path() / (std::string("xstage_cli_run_") + test->name());
    std::filesystem::create_directories(folder);
    profile = (folder / "round.json").string();
    write_text(profile, format_platform(round_platform()));
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder / name;
    std::ofstream(path) << text;
    return path.string();
  }
  [[nodiscard]] std::vector<std::string> audit_words(const std::string& gap) const {
    return {"audit", "--platform", profile, "--producers", "128", "--bytes", "32000", "--gap", gap};
  }

  std::filesystem::path folder;
  std::string profile;
};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(CliRun, HelpAndVersionAreAnswers) {
  EXPECT_EQ(run_tool({"--help"}).code, 0);
  EXPECT_NE(run_tool({"--version"}).out.find("commit"), std::string::npos);
  const Outcome verb_help = run_tool({"audit", "--help"});
  EXPECT_EQ(verb_help.code, 0);
  EXPECT_NE(verb_help.out.find("--coincident"), std::string::npos);
}

TEST_F(CliRun, WrongUsageIsTwoAndLeavesStdoutEmpty) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"no-such-verb"},
      {"predict"},
      {"predict", "--platform", profile, "--producers", "x", "--bytes", "32000", "--gap", "1"},
      {"predict", "--platform", profile, "--producers", "128", "--bytes", "32KB", "--gap", "1"},
      {"predict", "--platform", profile, "--producers", "128", "--bytes", "32000", "--gap", "-1"},
      {"predict", "--platform", profile, "--producers", "128", "--bytes", "32000", "--gap", "1", "--bursts", "0"},
      {"predict", "--platform", profile, "--producers", "128", "--bytes", "32000", "--gap", "1", "--path", "store5"},
      {"audit", "--platform", profile},
      {"audit", "--platform", profile, "--producers", "128"},
      {"audit", "--platform", profile, "workload.json", "--gap", "3"},
      with(audit_words("20"), {"--regime", "sometimes"}),
      {"calibrate", "--node", "cuda"},
  };
  for (const std::vector<std::string>& words : wrong) {
    const Outcome outcome = run_tool(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST_F(CliRun, BadInputIsThreeAndNamesTheFile) {
  const std::string truncated = file("truncated.json", R"({"schema": "xstage.platform/1", )");
  const std::vector<std::string> numbers{"--producers", "128", "--bytes", "32000", "--gap", "1"};
  for (const std::string& name : {truncated, (folder / "missing.json").string()}) {
    const Outcome outcome = run_tool(with({"predict", "--platform", name}, numbers));
    EXPECT_EQ(outcome.code, 3);
    EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
  }
  const Outcome too_many =
      run_tool({"audit", "--platform", profile, "--producers", "133", "--bytes", "32000", "--gap", "1"});
  EXPECT_EQ(too_many.code, 3);
  EXPECT_NE(too_many.err.find("133"), std::string::npos);
}

TEST_F(CliRun, AuditExitsWithItsTest) {
  // The round platform with a gap of 20: passes free-running, fails aligned (audit_platform.hpp).
  EXPECT_EQ(run_tool(audit_words("20")).code, 1);
  EXPECT_EQ(run_tool(with(audit_words("20"), {"--regime", "aligned"})).code, 1);
  EXPECT_EQ(run_tool(with(audit_words("20"), {"--regime", "free-running"})).code, 0);
  EXPECT_EQ(run_tool(with(audit_words("3"), {"--regime", "free-running"})).code, 1);
  EXPECT_EQ(run_tool(with(audit_words("20"), {"--coincident", "40"})).code, 0);
}

TEST_F(CliRun, AuditThatCannotDecideIsNotAPass) {
  Platform platform = round_platform();
  platform.paths[0].capacity = {{128, unknown("no knee"), not_measured, not_measured}};
  write_text(profile, format_platform(platform));
  const Outcome outcome = run_tool(with(audit_words("20"), {"--regime", "aligned"}));
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::cannot_decide));
  EXPECT_NE(outcome.out.find("cannot decide"), std::string::npos);
  EXPECT_NE(outcome.out.find("no knee"), std::string::npos);
}

TEST_F(CliRun, AuditJsonHoldsBothRegimesAndTheFlips) {
  const Outcome outcome = run_tool(with(audit_words("20"), {"--json"}));
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["free_running"]["verdict"], "piggyback");
  EXPECT_EQ(document["aligned"]["verdict"], "reshape");
  EXPECT_EQ(document["passed"], false);
  EXPECT_EQ(document["free_running"]["capacity_bound"]["holds"], true);
  EXPECT_TRUE(document["free_running"]["capacity_bound"]["margin_bytes"].is_null());
  EXPECT_NEAR(document["aligned"]["capacity_bound"]["price_us"].get<double>(), 2.24, 1e-9);
  EXPECT_EQ(document["flips"].size(), 7U);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CliRun, AuditReadsAWorkloadFile) {
  const std::string workload = file("workload.json", R"({"schema": "xstage.workload/1", "name": "a kernel",
      "description": "numbers by hand", "store_path": "store16", "producers": 128, "bytes_per_producer": 32000,
      "gap_us": 20})");
  const Outcome outcome = run_tool({"audit", "--platform", profile, workload, "--regime", "free-running"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("a kernel"), std::string::npos);
  EXPECT_NE(outcome.out.find("numbers by hand"), std::string::npos);
}

TEST_F(CliRun, PredictShowsBurstGapBesideCompletionCoupled) {
  const std::vector<std::string> words{"predict", "--platform", profile, "--producers", "128",
                                       "--bytes", "32000",      "--gap", "0:12:4",      "--json"};
  const nlohmann::json free_running = nlohmann::json::parse(run_tool(words).out);
  ASSERT_EQ(free_running["rows"].size(), 4U);
  EXPECT_EQ(free_running["regime"], "free_running");
  EXPECT_NEAR(free_running["rows"][1]["issue_us"].get<double>(), 6.24, 1e-9);
  EXPECT_NEAR(free_running["rows"][3]["period_us"].get<double>(), 12.5, 1e-9);
  EXPECT_NEAR(free_running["rows"][3]["completion_coupled_period_us"].get<double>(), 22.24, 1e-9);
  const nlohmann::json aligned = nlohmann::json::parse(run_tool(with(words, {"--aligned"})).out);
  EXPECT_NEAR(aligned["rows"][3]["issue_us"].get<double>(), 2.74, 1e-9);
}

TEST_F(CliRun, PredictRunsATrainByTheBacklogRecursion) {
  // The first burst meets an empty fabric: (V - Q)/R = 2.74; the next ones, G = 4, find Q - R*4 = 1,400,000 bytes
  // outstanding: (1,400,000 + V - Q)/R = 6.24.
  const Outcome outcome = run_tool({"predict", "--platform", profile, "--producers", "128", "--bytes", "32000", "--gap",
                                    "4", "--bursts", "3", "--json"});
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document["rows"].size(), 3U);
  EXPECT_EQ(document["regime"], "aligned");
  EXPECT_NEAR(document["rows"][0]["issue_us"].get<double>(), 2.74, 1e-9);
  EXPECT_NEAR(document["rows"][1]["issue_us"].get<double>(), 6.24, 1e-9);
  EXPECT_NEAR(document["rows"][2]["issue_us"].get<double>(), 6.24, 1e-9);
  EXPECT_NEAR(document["rows"][2]["outstanding_at_end_bytes"].get<double>(), 3e6, 1e-3);
}

TEST_F(CliRun, PredictDoesNotGuessWhatTheProfileLacks) {
  Platform platform = round_platform();
  platform.paths[0].capacity = {{128, unknown("no knee"), not_measured, not_measured}};
  write_text(profile, format_platform(platform));
  const std::vector<std::string> words{"predict", "--platform", profile, "--producers", "128",
                                       "--bytes", "32000",      "--gap", "20"};
  EXPECT_EQ(run_tool(words).code, 0);
  const Outcome aligned = run_tool(with(words, {"--aligned"}));
  EXPECT_EQ(aligned.code, 3);
  EXPECT_NE(aligned.err.find("no knee"), std::string::npos) << aligned.err;
}

TEST_F(CliRun, TablesSpellOutTheirUnits) {
  const Outcome predict =
      run_tool({"predict", "--platform", profile, "--producers", "128", "--bytes", "32000", "--gap", "1"});
  EXPECT_NE(predict.out.find("(microseconds)"), std::string::npos);
  const Outcome audit = run_tool(audit_words("20"));
  EXPECT_NE(audit.out.find("price of the capacity bound (microseconds per tile)"), std::string::npos);
}

TEST_F(CliRun, AProfileNeverReplacesItsSamples) {
  const std::string samples = file("samples.csv", "precious");
  EXPECT_EQ(run_tool({"fit", samples, "-o", samples}).code, 2);
  EXPECT_EQ(run_tool({"fit", samples, "-o", (folder / "." / "samples.csv").string()}).code, 2);
  EXPECT_EQ(read_text(samples), "precious");
}

TEST_F(CliRun, BrokenStandardOutputIsReported) {
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  const char* arguments[] = {"xstage", "devices"};
  EXPECT_EQ(run(2, arguments, out, err, false), 3);
  EXPECT_NE(err.str().find("standard output"), std::string::npos);
}

}  // namespace
}  // namespace xstage::cli::cli_run_test
