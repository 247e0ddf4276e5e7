#pragma once
/// An audit for people and for programs.

#include <ostream>

#include "cli/json_output.hpp"
#include "xstage/audit.hpp"

namespace xstage::cli {

void print_audit(std::ostream& out, const Platform& platform, const Audit& audit);
[[nodiscard]] Json audit_json(const Platform& platform, const Audit& audit);

}  // namespace xstage::cli
