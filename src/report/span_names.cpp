// Names of the roles and kinds that kernels record. The compiler warns if a new one of span_record.hpp has no name.

#include "fabric/span_record.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

namespace {

using kernels::SpanKind;
using kernels::SpanRole;

const char* word(SpanRole role) {
  switch (role) {
    case SpanRole::loader:
      return "loader";
    case SpanRole::store_first:
      return "store warp 0";
    case SpanRole::store_second:
      return "store warp 1";
    case SpanRole::push:
      return "push warp";
    case SpanRole::multiply_first:
      return "multiply warpgroup 0";
    case SpanRole::multiply_second:
      return "multiply warpgroup 1";
  }
  return "unknown role";
}

const char* word(SpanKind kind) {
  switch (kind) {
    case SpanKind::main_loop:
      return "main loop";
    case SpanKind::stage_tile:
      return "stage tile";
    case SpanKind::store_tile:
      return "store tile";
    case SpanKind::store_arrival:
      return "store arrival";
    case SpanKind::wait_partial:
      return "wait for partial tile";
    case SpanKind::wait_chunk:
      return "wait for chunk";
    case SpanKind::push_chunk:
      return "push chunk";
  }
  return "unknown kind";
}

constexpr int span_kinds = static_cast<int>(SpanKind::push_chunk) + 1;

Names make_names() {
  Names names;
  for (int role = 0; role < kernels::span_roles; ++role) {
    names.roles.emplace_back(word(static_cast<SpanRole>(role)));
  }
  for (int kind = 0; kind < span_kinds; ++kind) {
    names.kinds.emplace_back(word(static_cast<SpanKind>(kind)));
  }
  return names;
}

}  // namespace

const Names& kernel_names() {
  static const Names names = make_names();
  return names;
}

}  // namespace xstage::trace
