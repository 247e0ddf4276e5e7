#include <unistd.h>

#include <csignal>
#include <iostream>

#include "cli/run.hpp"
#include "report/code_record.hpp"

int main(int argument_count, char** arguments) {
  // A reader that has seen enough (head) ends the tool quietly, also below a parent that ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  return xstage::cli::run(argument_count, arguments, std::cout, std::cerr, is_terminal,
                          xstage::bench::build_fingerprints());
}
