/// Stands in for `xstage bench` in builds without operators.

#include "cli/verbs.hpp"
#include "xstage/error.hpp"

namespace xstage::cli {

void add_bench(CLI::App& tool, Invocation& invocation) {
  CLI::App& bench = *tool.add_subcommand("bench", "Not in this build, which was configured with XSTAGE_OPERATORS=OFF");
  bench.allow_extras();  // whatever is asked of it
  bench.callback([&invocation] {
    invocation.verb = [](Console& /*console*/) -> ExitCode {
      throw DeviceError(
          "this build has no operators, which a benchmark needs: configure with -DXSTAGE_OPERATORS=ON and rebuild");
    };
  });
}

}  // namespace xstage::cli
