#include "xstage/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "fabric/span_record.hpp"
#include "report/clock.hpp"
#include "report/span_buffer.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage::trace::trace_test {
namespace {

using kernels::SpanKind;
using kernels::SpanRecord;
using kernels::SpanRole;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int loader = static_cast<int>(SpanRole::loader);
constexpr int first_warpgroup = static_cast<int>(SpanRole::multiply_first);
constexpr int main_loop = static_cast<int>(SpanKind::main_loop);
constexpr int store_tile = static_cast<int>(SpanKind::store_tile);

/// The clock of rank 1 is 5000 ns ahead: its span begins 500 ns after that of rank 0.
Trace two_ranks() {
  Trace trace;
  trace.clocks = {{0, 0, 0}, {3, 5000, 640}};
  trace.spans = {{1, 0, first_warpgroup, main_loop, 7, 1'000'006'500, 1'000'008'750},
                 {0, 0, first_warpgroup, main_loop, 4, 1'000'001'000, 1'000'003'000},
                 {0, 2, loader, store_tile, -1, 1'000'003'000, 1'000'003'001}};
  return trace;
}

template <typename Function>
std::string input_error(Function function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

std::vector<json> events_of(const json& document, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) {
      events.push_back(event);
    }
  }
  return events;
}

TEST(TraceNames, EveryRoleAndKindHasAWordOfItsOwn) {
  const Names& names = kernel_names();
  EXPECT_EQ(names.roles.size(), static_cast<std::size_t>(kernels::span_roles));
  EXPECT_EQ(names.kinds.at(static_cast<std::size_t>(SpanKind::push_chunk)), "push chunk");
  for (const std::vector<std::string>& words : {names.roles, names.kinds}) {
    EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), words.size());
    for (const std::string& word : words) {
      EXPECT_THAT(word, testing::Not(HasSubstr("unknown")));
    }
  }
}

TEST(TraceClock, ShortestRoundTripWins) {
  // The other clock is 1000 ahead. The second message takes 300 there and 100 back: an error of (300 - 100) / 2.
  const std::vector<ClockExchange> exchanges{
      {100, 100 + 1000 + 900, 2050, 1050 + 700}, {5000, 6300, 6350, 5450}, {9000, 10400, 10500, 9700}};
  EXPECT_EQ(round_trip_ns(exchanges[1]), 400);
  const ClockOffset offset = best_offset(exchanges, 32);
  EXPECT_EQ(offset.offset_ns, 1100);
  EXPECT_DOUBLE_EQ(offset.uncertainty_ns, 232);
  EXPECT_LE(std::abs(offset.offset_ns - 1000), offset.uncertainty_ns);
}

TEST(TraceClock, OtherClockBehindAndCoarseSteps) {
  EXPECT_EQ(best_offset(std::vector<ClockExchange>{{10'000, 2'500, 2'500, 11'000}}, 32).offset_ns, -8000);
  // Both clocks advance by 1024 ns: the whole exchange may fit into one step, and is still uncertain by it.
  const ClockOffset coarse = best_offset(std::vector<ClockExchange>{{1024, 4096, 5120, 1024}}, 1024);
  EXPECT_DOUBLE_EQ(coarse.uncertainty_ns, 1024);
  EXPECT_THAT(input_error([] { static_cast<void>(best_offset({}, 32)); }), HasSubstr("at least one"));
}

TEST(TraceClock, SpansOfAllRanksMoveToOneClock) {
  const std::vector<Span> spans = on_common_clock(two_ranks());
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].rank, 0);
  EXPECT_EQ(spans[0].begin_ns, 0);
  EXPECT_EQ(spans[0].end_ns, 2000);
  EXPECT_EQ(spans[1].rank, 1);
  EXPECT_EQ(spans[1].begin_ns, 500);
  EXPECT_EQ(spans[1].end_ns, 2750);
  EXPECT_EQ(spans[2].begin_ns, 2000);
}

TEST(TraceClock, ImpossibleSpansAreNamed) {
  Trace trace = two_ranks();
  trace.spans[0].rank = 2;
  EXPECT_EQ(input_error([&] { static_cast<void>(on_common_clock(trace)); }), "a span of rank 2: the trace has 2");
  trace = two_ranks();
  trace.spans[1].kind = 99;
  EXPECT_THAT(input_error([&] { static_cast<void>(perfetto_json(trace)); }), HasSubstr("kind 99"));
  trace = two_ranks();
  trace.spans[2].end_ns = trace.spans[2].begin_ns - 40;
  EXPECT_THAT(input_error([&] { static_cast<void>(summarise(trace)); }),
              HasSubstr("rank 0, CTA 2, loader ends 40 ns before it begins"));
}

TEST(TracePerfetto, ProcessIsARankAndTimesAreMicroseconds) {
  const json document = json::parse(perfetto_json(two_ranks()));
  const std::vector<json> spans = events_of(document, "X");
  ASSERT_EQ(spans.size(), 2U);  // CTA 0 alone unless others are asked for
  EXPECT_EQ(spans[0].at("pid"), 0);
  EXPECT_EQ(spans[0].at("name"), "main loop");
  EXPECT_EQ(spans[0].at("cat"), "multiply warpgroup 0");
  EXPECT_EQ(spans[0].at("args").at("tile"), 4);
  EXPECT_DOUBLE_EQ(spans[0].at("dur").get<double>(), 2.0);
  EXPECT_EQ(spans[1].at("pid"), 1);
  EXPECT_EQ(spans[1].at("tid"), spans[0].at("tid"));
  EXPECT_DOUBLE_EQ(spans[1].at("ts").get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(spans[1].at("dur").get<double>(), 2.25);
}

TEST(TracePerfetto, AllBlocksAreThreadsOfTheirOwn) {
  const json document = json::parse(perfetto_json(two_ranks(), {{}}));
  const std::vector<json> spans = events_of(document, "X");
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_NE(spans[2].at("tid"), spans[0].at("tid"));
  EXPECT_FALSE(spans[2].contains("args"));  // no tile
  std::vector<std::string> threads;
  for (const json& event : events_of(document, "M")) {
    if (event.at("name") == "thread_name") {
      EXPECT_GT(event.at("tid"), 0);
      threads.push_back(event.at("args").at("name"));
    }
  }
  EXPECT_THAT(threads, ElementsAre("CTA 0 multiply warpgroup 0", "CTA 2 loader", "CTA 0 multiply warpgroup 0"));
}

TEST(TracePerfetto, ChosenBlocksMustExist) {
  EXPECT_EQ(events_of(json::parse(perfetto_json(two_ranks(), {{2}})), "X").size(), 1U);
  EXPECT_THAT(input_error([] {
                static_cast<void>(perfetto_json(two_ranks(), {{0, 5}}));
              }),
              HasSubstr("CTA 5 is to be shown, but has no span: the trace has spans of 2 CTAs, 0 to 2"));
}

TEST(TracePerfetto, SaysHowUncertainTheClocksAre) {
  const json document = json::parse(perfetto_json(two_ranks()));
  const json& second = document.at("otherData").at("clocks").at(1);
  EXPECT_EQ(second.at("device"), 3);
  EXPECT_EQ(second.at("offset_ns"), 5000);
  EXPECT_DOUBLE_EQ(second.at("uncertainty_ns").get<double>(), 640);
  std::vector<std::string> labels;
  for (const json& event : events_of(document, "M")) {
    if (event.at("name") == "process_labels") {
      labels.push_back(event.at("args").at("labels"));
    }
  }
  ASSERT_EQ(labels.size(), 2U);
  EXPECT_THAT(labels[1], HasSubstr("GPU 3, clock ±0.640 us"));
}

TEST(TracePerfetto, EmptyTraceIsStillAFile) {
  Trace trace;
  trace.clocks = {{}};
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "empty_trace.json";
  write_perfetto(path, trace);
  const json document = json::parse(read_text(path));
  EXPECT_TRUE(events_of(document, "X").empty());
  std::filesystem::remove(path);
}

TEST(TraceSummary, ValuesByHand) {
  Trace trace;
  trace.clocks = {{}, {1, -700, 10}};
  // 1, 2, 3, 4, 10 us: p95 lies at place 3.8 of 0 to 4, 4 + 0.8 * (10 - 4).
  for (const int duration_us : {10, 1, 4, 2, 3}) {
    trace.spans.push_back({1, duration_us, first_warpgroup, main_loop, 0, 5000, 5000 + duration_us * 1000});
  }
  trace.spans.push_back({0, 0, loader, store_tile, 0, 0, 1500});
  const std::vector<KindSummary> rows = summarise(trace);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].rank, 0);
  EXPECT_EQ(rows[0].kind, store_tile);
  EXPECT_DOUBLE_EQ(rows[0].p95_us, 1.5);
  EXPECT_EQ(rows[1].rank, 1);
  EXPECT_EQ(rows[1].kind, main_loop);
  EXPECT_EQ(rows[1].count, 5U);
  EXPECT_DOUBLE_EQ(rows[1].mean_us, 4.0);
  EXPECT_DOUBLE_EQ(rows[1].p95_us, 8.8);
  EXPECT_DOUBLE_EQ(rows[1].max_us, 10.0);
  EXPECT_DOUBLE_EQ(rows[1].total_us, 20.0);
}

TEST(TraceSummary, TableSaysWhatIsMissing) {
  Trace trace = two_ranks();
  EXPECT_THAT(summary_table(trace), HasSubstr("   1  main loop                     1       2.250"));
  EXPECT_THAT(summary_table(trace), testing::Not(HasSubstr("full")));
  trace.full_tracks = 3;
  EXPECT_THAT(summary_table(trace), HasSubstr("3 tracks are full"));
}

TEST(TraceBuffer, RecordsBecomeSpansOfTheirTrack) {
  constexpr int spans_each = 2;
  std::vector<SpanRecord> records(2 * kernels::span_roles * spans_each);
  const auto place = [](int block, int role, int span) {
    return static_cast<std::size_t>((block * kernels::span_roles + role) * spans_each + span);
  };
  records[place(0, loader, 0)] = {100, 200, static_cast<std::uint32_t>(store_tile), 5};
  records[place(1, first_warpgroup, 0)] = {300, 400, static_cast<std::uint32_t>(main_loop), 6};
  records[place(1, first_warpgroup, 1)] = {400, 450, static_cast<std::uint32_t>(main_loop), 7};
  Trace trace;
  append_spans(trace, 1, records, spans_each);
  ASSERT_EQ(trace.spans.size(), 3U);
  EXPECT_EQ(trace.spans[0].block, 0);
  EXPECT_EQ(trace.spans[0].role, loader);
  EXPECT_EQ(trace.spans[0].tile, 5);
  EXPECT_EQ(trace.spans[2].rank, 1);
  EXPECT_EQ(trace.spans[2].block, 1);
  EXPECT_EQ(trace.spans[2].role, first_warpgroup);
  EXPECT_EQ(trace.spans[2].begin_ns, 400);
  EXPECT_EQ(trace.full_tracks, 1);
  records.pop_back();
  EXPECT_THAT(input_error([&] { append_spans(trace, 0, records, spans_each); }), HasSubstr("whole CTAs of 6 roles"));
}

}  // namespace
}  // namespace xstage::trace::trace_test
