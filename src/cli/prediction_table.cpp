/// A prediction for people.

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cli/prediction_output.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/wording.hpp"
#include "node/words.hpp"

namespace xstage::cli {

namespace {

class TableOutput : public PredictionOutput {
 public:
  explicit TableOutput(const PredictionContext& context)
      : context_(context),
        train_(context.question.bursts > 0),
        several_(!context.question.one_point()),
        fixed_work_(context.question.regime() == Regime::free_running),
        uneven_(train_ && context.unevenness.value.has_value()),
        table_(headings()) {}

  void begin() override {
    const PredictionQuestion& question = context_.question;
    context_.out << "Platform " << node_line(context_.platform.node) << '\n';
    if (several_) {
      context_.out << fmt::format("{} producer counts and {} burst sizes, {}\n", question.producers.size(),
                                  question.bytes.size(), words_of(question.path));
    } else {
      for_each_point(context_.platform, context_.origin, question, [&](const PredictedPoint& point) {
        context_.out << fmt::format("{} producers of {} each, {}\n", point.producers, bytes_text(point.bytes),
                                    words_of(question.path));
        operating_point_listing(point.found).print(context_.out);
      });
    }
    context_.out << (train_ ? fmt::format("\nTrain of {} aligned bursts, the first one onto an empty fabric\n",
                                          question.bursts)
                            : fmt::format("\nSteady state, {} producers\n", words_of(question.regime())));
    table_.print_headings(context_.out);
  }

  void row(const PredictedPoint& point, const PredictedBurst& burst) override {
    std::vector<std::string> cells;
    if (several_) {
      cells = {std::to_string(point.producers), bytes_text(point.bytes)};
    }
    cells.push_back(fixed(burst.gap_us, 2));
    add_times(burst, cells);
    if (several_ && context_.extrapolates) {
      const std::string doubt = extrapolation_text(point.found);
      cells.push_back(doubt.empty() ? "-" : doubt);
    }
    table_.print_row(context_.out, cells);
  }

  void end() override {
    if (fixed_work_) {
      context_.out << "  fixed work: every producer makes the same number of bursts (tiles dealt out statically), tail "
                      "included\n";
    }
    if (uneven_) {
      context_.out
          << "  uneven drain: arbitration favours half of the producers; the others' back-pressure starts earlier\n";
    }
  }

 private:
  [[nodiscard]] std::vector<std::string> headings() const {
    std::vector<std::string> names;
    if (several_) {
      names = {"\nproducers", "bytes of\neach producer"};
    }
    const auto add = [&](std::initializer_list<const char*> more) {
      names.insert(names.end(), more.begin(), more.end());
    };
    add({"gap\n(microseconds)"});
    if (train_) {
      add({"burst", "issue time\n(microseconds)"});
      if (uneven_) {
        add({"with uneven drain\n(microseconds)"});
      }
      add({"back-pressure\n(microseconds)", "outstanding at its\nend (KiB)", "issue time and gap\n(microseconds)",
           "completion-coupled\n(microseconds)"});
    } else {
      add({"issue time\n(microseconds)", "back-pressure in it\n(microseconds)", "period\n(microseconds)",
           "completion-coupled\nperiod (microseconds)", "burst-gap\nsaves"});
      if (fixed_work_) {
        add({"fixed-work period\n(microseconds)", "fixed work,\ncompletion-coupled"});
      }
    }
    if (several_ && context_.extrapolates) {
      add({"T_iss0 is extrapolated:"});
    }
    return names;
  }

  void add_times(const PredictedBurst& burst, std::vector<std::string>& cells) const {
    const auto add = [&](std::string cell) { cells.push_back(std::move(cell)); };
    if (train_) {
      add(std::to_string(burst.burst_index));
      add(fixed(burst.issue_us, 2));
      if (uneven_) {
        add(fixed(burst.uneven_issue_us, 2));
      }
      add(fixed(burst.overhead_us, 2));
      add(fixed(burst.backlog_bytes / 1024, 0));
      add(fixed(burst.period_us, 2));
      add(fixed(burst.completion_coupled_period_us, 2));
      return;
    }
    add(fixed(burst.issue_us, 2));
    add(fixed(burst.overhead_us, 2));
    add(fixed(burst.period_us, 2));
    add(fixed(burst.completion_coupled_period_us, 2));
    add(percent(1 - burst.period_us / burst.completion_coupled_period_us));
    if (fixed_work_) {
      add(fixed(burst.fixed_work_period_us, 2));
      add(fixed(burst.fixed_work_completion_coupled_period_us, 2));
    }
  }

  PredictionContext context_;
  bool train_;
  bool several_;
  bool fixed_work_;
  bool uneven_;
  Table table_;
};

}  // namespace

std::unique_ptr<PredictionOutput> table_output(const PredictionContext& context) {
  return std::make_unique<TableOutput>(context);
}

}  // namespace xstage::cli
