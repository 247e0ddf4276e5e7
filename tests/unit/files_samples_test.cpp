/// Samples files: exact round trips, and messages that name place, value and rule.

#include <gtest/gtest.h>

#include <limits>

#include "fuzz/same.hpp"
#include "unit/files_examples.hpp"
#include "xstage/files.hpp"

namespace xstage::files_samples_test {
namespace {

using examples::refusal;
using examples::with;

std::string refused_text(const std::string& text) {
  return refusal([&] { (void)parse_samples(text, "s.csv"); });
}

std::string one_row() { return format_samples({examples::two_gpus(), {examples::periodic_sample()}}); }

TEST(SamplesFile, every_field_survives_a_round_trip_exactly) {
  const SamplesFile file = examples::samples_file();
  EXPECT_TRUE(same(file, parse_samples(format_samples(file), "s.csv")));
}

TEST(SamplesFile, text_is_stable) {
  const std::string text = format_samples(examples::samples_file());
  EXPECT_EQ(text, format_samples(parse_samples(text, "s.csv")));
}

TEST(SamplesFile, carriage_returns_are_accepted) {
  std::string text;
  for (const char character : format_samples(examples::samples_file())) {
    text += character == '\n' ? std::string("\r\n") : std::string(1, character);
  }
  EXPECT_TRUE(same(examples::samples_file(), parse_samples(text, "s.csv")));
}

TEST(SamplesFile, doubles_are_written_in_their_shortest_form) {
  EXPECT_NE(one_row().find(",0.30000000000000004,10.911,9,12.5,0.3333333333333333,11.632,,276824064,744.5,5e-324,"),
            std::string::npos);
}

TEST(SamplesFile, several_destinations_are_separated_by_semicolons) {
  NodeDescription node = examples::two_gpus();
  node.devices.push_back(node.devices.front());
  BurstSample sample = examples::periodic_sample();
  sample.experiment.destinations = {2, 1};
  const std::string text = format_samples({node, {sample}});
  EXPECT_NE(text.find(",2;1,132,"), std::string::npos);
  EXPECT_EQ(parse_samples(text, "s.csv").samples.front().experiment.destinations, (std::vector<int>{2, 1}));
}

TEST(SamplesFile, message_names_origin_line_column_value_and_rule) {
  // 1 schema + 10 texts + 2 devices + 1 rows = 14 header lines, column names on line 15, the row on line 16.
  EXPECT_EQ(refused_text(with(one_row(), ",10.911,", ",fast,")),
            "s.csv: line 16, issue_us: \"fast\": must be a finite decimal number");
}

TEST(SamplesFile, rows_that_a_fit_would_choke_on_are_refused_with_their_line) {
  const auto expect_refused = [](std::string_view from, std::string_view to, std::string_view value,
                                 std::string_view rule) {
    const std::string message = refused_text(with(one_row(), from, to));
    EXPECT_TRUE(message.starts_with("s.csv: line 16: ")) << message;
    EXPECT_NE(message.find(value), std::string::npos) << message;
    EXPECT_NE(message.find(rule), std::string::npos) << message;
  };
  expect_refused(",132,32768,", ",132,32767,", "32767", "16");
  expect_refused(",132,32768,", ",133,32768,", "133", "132");
  expect_refused(",0,1,132,", ",0,2,132,", "2", "2 device");
  expect_refused(",0,1,132,", ",5,1,132,", "5", "2 device");
}

TEST(SamplesFile, steady_states_need_a_measured_gap_and_trains_do_not) {
  for (const BurstMode mode : {BurstMode::periodic, BurstMode::fixed_work}) {
    BurstSample sample = examples::periodic_sample();
    sample.experiment.mode = mode;
    EXPECT_NO_THROW((void)format_samples({examples::two_gpus(), {sample}}));
    sample.gap_us = not_measured;
    EXPECT_TRUE(refusal([&] {
                  (void)format_samples({examples::two_gpus(), {sample}});
                }).starts_with("sample 0: gap_us nan: "));
  }
  EXPECT_NO_THROW((void)format_samples({examples::two_gpus(), {examples::train_sample(0)}}));
}

TEST(SamplesFile, burst_index_belongs_to_trains) {
  BurstSample sample = examples::train_sample(64);
  EXPECT_EQ(refusal([&] {
              (void)format_samples({examples::two_gpus(), {sample}});
            }),
            "sample 0: burst_index 64: must be from 0 to 63 in a train of 64 bursts");
}

TEST(SamplesFile, what_the_reader_would_refuse_is_never_written) {
  SamplesFile file = examples::samples_file();
  file.samples[1].issue_us = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(refusal([&] { (void)format_samples(file); }).starts_with("sample 1: issue_us inf: ")) << "infinite";
  file = examples::samples_file();
  file.node.driver = "two\nlines";
  EXPECT_TRUE(refusal([&] { (void)format_samples(file); }).starts_with("driver: \"two\\x0alines\": ")) << "two lines";
  file.node.driver = "\xff";
  EXPECT_TRUE(refusal([&] { (void)format_samples(file); }).starts_with("driver: \"\\xff\": ")) << "not UTF-8";
}

TEST(SamplesFile, code_that_measured_is_the_one_header_key_that_may_be_missing) {
  EXPECT_EQ(one_row().find("# code"), std::string::npos);
  SamplesFile file = parse_samples(one_row(), "s.csv");
  EXPECT_EQ(file.code, "");
  file.code = R"({"nvcc": "13.0"})";
  const std::string text = format_samples(file);
  EXPECT_EQ(parse_samples(text, "s.csv").code, file.code);
  EXPECT_NE(refused_text(with(text, "# code: ", "# code: {}\n# code: ")).find("twice"), std::string::npos);
  file.code = "two\nlines";
  EXPECT_TRUE(refusal([&] { (void)format_samples(file); }).starts_with("code: "));
}

TEST(SamplesFile, a_cut_is_noticed_wherever_it_falls) {
  const std::string text = format_samples(examples::samples_file());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(refused_text(text.substr(0, size)), "<accepted>") << size << " of " << text.size() << " bytes";
  }
}

TEST(SamplesFile, missing_header_key_is_named) {
  EXPECT_NE(refused_text(with(one_row(), "# cuda: \n", "")).find("\"# cuda: ...\""), std::string::npos);
}

TEST(SamplesFile, hostile_device_line_names_its_line_and_path) {
  const std::string message = refused_text(with(one_row(), "\"multiprocessors\":132", "\"multiprocessors\":1.5"));
  EXPECT_EQ(message, "s.csv: line 12: device 0: multiprocessors: 1.5: must be an integer from 1 to 65536");
}

TEST(SamplesFile, messages_stay_short_and_printable) {
  const std::string message = refused_text(with(one_row(), ",10.911,", "," + std::string(100000, '\x01') + ","));
  EXPECT_LT(message.size(), 500U);
  EXPECT_NE(message.find("\\x01"), std::string::npos);
  EXPECT_NE(message.find("(100000 characters)"), std::string::npos);
}

}  // namespace
}  // namespace xstage::files_samples_test
