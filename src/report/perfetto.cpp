// Chrome trace-event JSON, which Perfetto reads. Complete events ("X") of one thread must nest; the spans of one role
// of one CTA follow each other, so each (CTA, role) is a thread of its own.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "xstage/error.hpp"
#include "xstage/files.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

namespace {

using Json = nlohmann::ordered_json;

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

std::string clock_text(const RankClock& clock) {
  return fmt::format("GPU {}, clock ±{:.3f} us against rank 0", clock.device, clock.uncertainty_ns / 1000);
}

/// Metadata event that names a process or thread in the viewer.
Json metadata(const char* what, int rank, const char* member, const Json& value) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"args", Json{{member, value}}}};
}

class Writer {
 public:
  Writer(const Trace& trace, const PerfettoOptions& options) : trace_(trace), spans_(on_common_clock(trace)) {
    choose_blocks(options.blocks);
  }

  [[nodiscard]] std::string text() const {
    std::string events;
    const auto add = [&events](const Json& event) { events += (events.empty() ? "\n" : ",\n") + event.dump(); };
    add_processes(add);
    add_threads(add);
    for (const Span& span : spans_) {
      if (is_shown(span)) {
        add(event(span));
      }
    }
    return fmt::format("{{\"displayTimeUnit\": \"ns\",\n\"otherData\": {},\n\"traceEvents\": [{}\n]}}\n",
                       description().dump(), events);
  }

 private:
  void choose_blocks(const std::vector<int>& blocks) {
    std::set<int> present;
    for (const Span& span : spans_) {
      present.insert(span.block);
    }
    for (const int block : blocks) {
      // A trace without any span is a valid, empty one.
      if (!present.empty() && present.count(block) == 0) {
        throw InputError(fmt::format("CTA {} is to be shown, but has no span: the trace has spans of {} CTAs, {} to {}",
                                     block, present.size(), *present.begin(), *present.rbegin()));
      }
    }
    shown_ = blocks.empty() ? present : std::set<int>(blocks.begin(), blocks.end());
  }

  [[nodiscard]] bool is_shown(const Span& span) const { return shown_.count(span.block) != 0; }

  /// From 1: viewers take thread 0 for the idle task.
  [[nodiscard]] int thread(int block, int role) const {
    return block * static_cast<int>(trace_.names.roles.size()) + role + 1;
  }

  template <typename Add>
  void add_processes(const Add& add) const {
    for (std::size_t index = 0; index < trace_.clocks.size(); ++index) {
      const auto rank = static_cast<int>(index);
      add(metadata("process_name", rank, "name", fmt::format("rank {}", rank)));
      add(metadata("process_labels", rank, "labels", clock_text(trace_.clocks[index])));
      add(metadata("process_sort_index", rank, "sort_index", rank));
    }
  }

  template <typename Add>
  void add_threads(const Add& add) const {
    std::set<std::tuple<int, int, int>> tracks;
    for (const Span& span : spans_) {
      if (is_shown(span)) {
        tracks.emplace(span.rank, span.block, span.role);
      }
    }
    for (const auto& [rank, block, role] : tracks) {
      const std::string name = fmt::format("CTA {} {}", block, trace_.names.roles[static_cast<std::size_t>(role)]);
      Json named = metadata("thread_name", rank, "name", name);
      named["tid"] = thread(block, role);
      add(named);
      Json sorted = metadata("thread_sort_index", rank, "sort_index", thread(block, role));
      sorted["tid"] = thread(block, role);
      add(sorted);
    }
  }

  [[nodiscard]] Json event(const Span& span) const {
    Json event = {{"ph", "X"},
                  {"name", trace_.names.kinds[static_cast<std::size_t>(span.kind)]},
                  {"cat", trace_.names.roles[static_cast<std::size_t>(span.role)]},
                  {"pid", span.rank},
                  {"tid", thread(span.block, span.role)},
                  {"ts", microseconds(span.begin_ns)},
                  {"dur", microseconds(span.end_ns - span.begin_ns)}};
    if (span.tile >= 0) {
      event["args"] = Json{{"tile", span.tile}};
    }
    return event;
  }

  [[nodiscard]] Json description() const {
    Json clocks = Json::array();
    for (std::size_t rank = 0; rank < trace_.clocks.size(); ++rank) {
      const RankClock& clock = trace_.clocks[rank];
      clocks.push_back(Json{{"rank", rank},
                            {"device", clock.device},
                            {"offset_ns", clock.offset_ns},
                            {"uncertainty_ns", clock.uncertainty_ns}});
    }
    return {{"schema", "xstage.trace/1"},
            {"clock", "of rank 0's GPU; 0 is the beginning of the earliest span"},
            {"clocks", clocks},
            {"full_tracks", trace_.full_tracks}};
  }

  const Trace& trace_;
  std::vector<Span> spans_;
  std::set<int> shown_;
};

}  // namespace

std::string perfetto_json(const Trace& trace, const PerfettoOptions& options) { return Writer(trace, options).text(); }

void write_perfetto(const std::filesystem::path& path, const Trace& trace, const PerfettoOptions& options) {
  write_text(path, perfetto_json(trace, options));
}

}  // namespace xstage::trace
