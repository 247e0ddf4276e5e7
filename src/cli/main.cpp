#include <unistd.h>

#include <iostream>

#include "cli/run.hpp"
#include "report/code_record.hpp"

int main(int argument_count, char** arguments) {
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  return xstage::cli::run(argument_count, arguments, std::cout, std::cerr, is_terminal,
                          xstage::bench::build_fingerprints());
}
