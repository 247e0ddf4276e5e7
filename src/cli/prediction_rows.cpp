/// A prediction for programs: CSV and JSON, with the same names.

#include <array>
#include <cmath>
#include <string_view>

#include "cli/json_stream.hpp"
#include "cli/prediction_output.hpp"
#include "files/csv.hpp"

namespace xstage::cli {

namespace {

/// The first ten are those of the samples' columns where they mean the same.
constexpr std::array<std::string_view, 17> csv_columns{"store_path",
                                                       "burst_mode",
                                                       "regime",
                                                       "producers",
                                                       "bytes_per_producer",
                                                       "gap_us",
                                                       "burst_index",
                                                       "issue_us",
                                                       "issue_overhead_us",
                                                       "period_us",
                                                       "fixed_work_period_us",
                                                       "completion_coupled_period_us",
                                                       "fixed_work_completion_coupled_period_us",
                                                       "outstanding_at_end_bytes",
                                                       "uneven_issue_us",
                                                       "extrapolated_beyond_bytes",
                                                       "extrapolated_below_bytes"};

/// The cells that have no meaning here are empty, so that the columns are always the same.
class CsvOutput : public PredictionOutput {
 public:
  explicit CsvOutput(const PredictionContext& context) : context_(context) {}

  void begin() override {
    for (std::size_t index = 0; index < csv_columns.size(); ++index) {
      context_.out << (index == 0 ? "" : ",") << csv_columns[index];
    }
    context_.out << '\n';
  }

  void row(const PredictedPoint& point, const PredictedBurst& burst) override {
    const PredictionQuestion& question = context_.question;
    context_.out << name_of(question.path) << ',' << name_of(question.mode()) << ',' << name_of(question.regime())
                 << ',' << point.producers;
    add(point.bytes);
    add(burst.gap_us);
    context_.out << ',' << burst.burst_index;
    for (const double number :
         {burst.issue_us, burst.overhead_us, burst.period_us, burst.fixed_work_period_us,
          burst.completion_coupled_period_us, burst.fixed_work_completion_coupled_period_us, burst.backlog_bytes,
          burst.uneven_issue_us, point.found.extrapolated_beyond_bytes, point.found.extrapolated_below_bytes}) {
      add(number);
    }
    context_.out << '\n';
  }

  void end() override {}

 private:
  void add(double number) { context_.out << ',' << files::cell_of(number); }

  PredictionContext context_;
};

Json predicted_row_json(const PredictedPoint& point, const PredictedBurst& burst) {
  Json row = {{"producers", point.producers}, {"bytes_per_producer", point.bytes}, {"gap_us", burst.gap_us}};
  if (burst.burst_index >= 0) {
    row["burst_index"] = burst.burst_index;
    row["outstanding_at_end_bytes"] = burst.backlog_bytes;
    row["uneven_issue_us"] = burst.uneven_issue_us;
  }
  row["issue_us"] = burst.issue_us;
  row["issue_overhead_us"] = burst.overhead_us;
  row["period_us"] = burst.period_us;
  row["completion_coupled_period_us"] = burst.completion_coupled_period_us;
  if (!std::isnan(burst.fixed_work_period_us)) {
    row["fixed_work_period_us"] = burst.fixed_work_period_us;
    row["fixed_work_completion_coupled_period_us"] = burst.fixed_work_completion_coupled_period_us;
  }
  row["extrapolated_beyond_bytes"] = point.found.extrapolated_beyond_bytes;
  row["extrapolated_below_bytes"] = point.found.extrapolated_below_bytes;
  return row;
}

class JsonOutput : public PredictionOutput {
 public:
  explicit JsonOutput(const PredictionContext& context) : context_(context), stream_(context.out) {}

  void begin() override {
    const PredictionQuestion& question = context_.question;
    stream_.member("schema", "xstage.prediction/1");
    stream_.member("platform", context_.platform.node.name);
    stream_.member("path", name_of(question.path));
    stream_.member("regime", name_of(question.regime()));
    stream_.member("mode", name_of(question.mode()));
    if (!question.one_point()) {
      stream_.begin_array("points");
    }
    for_each_point(context_.platform, context_.origin, question, [&](const PredictedPoint& point) { add(point); });
    if (!question.one_point()) {
      stream_.end_array();
    }
    stream_.begin_array("rows");
  }

  void row(const PredictedPoint& point, const PredictedBurst& burst) override {
    stream_.element(predicted_row_json(point, burst));
  }

  void end() override {
    stream_.end_array();
    stream_.finish();
  }

 private:
  /// One point stands in the document itself.
  void add(const PredictedPoint& point) {
    const Json json = {
        {"producers", point.producers}, {"bytes_per_producer", point.bytes}, {"operating_point", to_json(point.found)}};
    if (!context_.question.one_point()) {
      stream_.element(json);
      return;
    }
    for (const auto& [name, value] : json.items()) {
      stream_.member(name, value);
    }
  }

  PredictionContext context_;
  JsonStream stream_;
};

}  // namespace

std::unique_ptr<PredictionOutput> csv_output(const PredictionContext& context) {
  return std::make_unique<CsvOutput>(context);
}

std::unique_ptr<PredictionOutput> json_output(const PredictionContext& context) {
  return std::make_unique<JsonOutput>(context);
}

}  // namespace xstage::cli
