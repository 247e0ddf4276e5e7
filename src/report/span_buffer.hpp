#pragma once
// Converts the records of a device buffer to spans.

#include <span>

#include "fabric/span_record.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

/// Appends the spans of one rank. `records` is [CTAs, kernels::span_roles, spans_each]; places that no kernel has
/// written are zero. A track without an empty place counts as full.
void append_spans(Trace& trace, int rank, std::span<const kernels::SpanRecord> records, int spans_each);

}  // namespace xstage::trace
