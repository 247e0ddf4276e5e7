#include "report/span_buffer.hpp"

#include <fmt/format.h>

#include "xstage/error.hpp"

namespace xstage::trace {

namespace {

bool is_written(const kernels::SpanRecord& record) { return record.end_ns != 0; }

}  // namespace

void append_spans(Trace& trace, int rank, std::span<const kernels::SpanRecord> records, int spans_each) {
  const auto room = static_cast<std::size_t>(spans_each);
  if (spans_each < 1 || records.size() % (room * kernels::span_roles) != 0) {
    throw InputError(fmt::format("{} span records with {} a role: they must be whole CTAs of {} roles", records.size(),
                                 spans_each, kernels::span_roles));
  }
  for (std::size_t place = 0; place < records.size(); ++place) {
    const kernels::SpanRecord& record = records[place];
    if (!is_written(record)) {
      continue;
    }
    const std::size_t track = place / room;
    trace.spans.push_back({rank, static_cast<int>(track / kernels::span_roles),
                           static_cast<int>(track % kernels::span_roles), static_cast<int>(record.kind), record.tile,
                           static_cast<std::int64_t>(record.begin_ns), static_cast<std::int64_t>(record.end_ns)});
    trace.full_tracks += place % room == room - 1 ? 1 : 0;
  }
}

}  // namespace xstage::trace
