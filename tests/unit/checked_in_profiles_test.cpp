// The profiles that the repository ships: they must read, and answer as their sources do.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "xstage/audit.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/files.hpp"

namespace xstage::checked_in_profiles_test {
namespace {

constexpr double mebibyte = 1024.0 * 1024;

std::string profile(const std::string& name) { return std::string(XSTAGE_SOURCE_DIR) + "/profiles/" + name; }

TEST(PaperProfile, ReproducesThePapersNumbers) {
  const Platform paper = read_platform(profile("paper-8x148.json"));
  const auto at = operating_point(paper, StorePath::store16, 148, 32 * 1024);
  ASSERT_TRUE(at.usable && at.capacity_known);
  EXPECT_NEAR(at.point.capacity_bytes / mebibyte, 4.25, 0.005);  // section 3.5
  EXPECT_NEAR(at.point.volume_bytes / mebibyte, 4.6, 0.05);      // section 4.3
  EXPECT_TRUE(model::design_test(at.point, 20).capacity_holds());
}

TEST(H200Profile, IsTheFitOfItsSamples) {
  const Platform shipped = read_platform(profile("h200x2.json"));
  const Platform fitted = fit(read_samples(profile("h200x2-samples.csv")));
  EXPECT_EQ(format_platform(shipped), format_platform(fitted));
}

/// What the checked-in calibration must reach on samples that its fit has not seen.
class H200HeldOut : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    validation_ = validate(read_platform(profile("h200x2.json")), read_samples(profile("h200x2-samples.csv")), false);
  }

  static void expect_errors(const std::string& mode, const std::string& quantity, double median, double worst) {
    int groups = 0;
    for (const ErrorSummary& error : validation_.errors) {
      if (error.group.find(mode) != std::string::npos && error.quantity == quantity) {
        ++groups;
        EXPECT_GE(error.law.samples, 3) << error.group;
        EXPECT_LE(error.law.median, median) << error.group << ", " << quantity;
        EXPECT_LE(error.law.worst, worst) << error.group << ", " << quantity;
      }
    }
    EXPECT_EQ(groups, 2) << "16-byte stores and bulk copies: " << mode << ", " << quantity;
  }

  static ErrorSummary error_of(const std::string& group, const std::string& quantity) {
    for (const ErrorSummary& error : validation_.errors) {
      if (error.group == group && error.quantity == quantity) {
        return error;
      }
    }
    ADD_FAILURE() << "no error of " << group << ", " << quantity;
    return {};
  }

  static inline Validation validation_;
};

TEST_F(H200HeldOut, PeriodsOfGapSweeps) {
  expect_errors("periodic, free-running", "period", 0.03, 0.08);
  expect_errors("periodic, aligned", "period", 0.03, 0.08);
}

TEST_F(H200HeldOut, IssueTimesOfGapSweeps) {
  expect_errors("periodic, free-running", "issue time, share of the drain time", 0.05, 0.05);
  expect_errors("periodic, aligned", "issue time, share of the drain time", 0.05, 0.05);
}

TEST_F(H200HeldOut, IsolatedBurstsBeyondTheKnee) {
  expect_errors("isolated, aligned", "issue time beyond the knee", 0.10, 0.10);
}

/// A correction must stand beside the plain law and be better than it: showing one of them alone would bend the table.
TEST_F(H200HeldOut, CorrectionsStandBesideTheLaw) {
  for (const char* path : {"16-byte stores", "bulk copies"}) {
    const ErrorSummary period = error_of(std::string(path) + ", fixed work, free-running", "period");
    EXPECT_GT(period.law.median, 0.02) << path;
    EXPECT_LT(period.corrected.median, period.law.median) << path;
    EXPECT_EQ(period.correction, "tail of fixed work");
    for (const char* quantity : {"issue time, share of the drain time", "onset of back-pressure"}) {
      const ErrorSummary train = error_of(std::string(path) + ", train, free-running", quantity);
      EXPECT_EQ(train.corrected.samples, train.law.samples) << path << ", " << quantity;
      EXPECT_LT(train.corrected.median, train.law.median) << path << ", " << quantity;
      EXPECT_EQ(train.correction, "uneven drain");
    }
  }
}

TEST_F(H200HeldOut, TheSlowestProducerIsFartherFromTheLawThanTheMean) {
  for (const char* mode : {"periodic, free-running", "periodic, aligned", "train, free-running"}) {
    const std::string group = std::string("16-byte stores, ") + mode;
    EXPECT_GT(error_of(group, "slowest producer's issue time, share of the drain time").law.median,
              error_of(group, "issue time, share of the drain time").law.median)
        << mode;
  }
}

/// The held-out table of docs/results.md is written from the results file, whose errors stand in its header.
TEST_F(H200HeldOut, ErrorsInTheResultsFileAreThoseOfTodaysLaw) {
  const auto results =
      nlohmann::json::parse(read_text(std::string(XSTAGE_SOURCE_DIR) + "/bench/results/calibration-h200x2.json"));
  const nlohmann::json& errors = results.at("held_out_errors");
  ASSERT_EQ(errors.size(), validation_.errors.size());
  const auto expect_same = [](const nlohmann::json& written, double value, const std::string& of) {
    EXPECT_EQ(written.is_null(), std::isnan(value)) << of;
    if (!written.is_null()) {
      EXPECT_NEAR(written.get<double>(), value, 1e-9) << of;
    }
  };
  for (std::size_t index = 0; index < errors.size(); ++index) {
    const ErrorSummary& error = validation_.errors[index];
    const std::string of = error.group + ", " + error.quantity;
    EXPECT_EQ(errors[index].at("group").get<std::string>() + ", " + errors[index].at("quantity").get<std::string>(),
              of);
    EXPECT_EQ(errors[index].at("samples"), error.law.samples) << of;
    expect_same(errors[index].at("median_error"), error.law.median, of);
    expect_same(errors[index].at("worst_error"), error.law.worst, of);
    expect_same(errors[index].at("corrected_median_error"), error.corrected.median, of);
    expect_same(errors[index].at("corrected_worst_error"), error.corrected.worst, of);
  }
}

}  // namespace
}  // namespace xstage::checked_in_profiles_test
