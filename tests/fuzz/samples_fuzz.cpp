/// Fuzz target of the samples reader.

#include "xstage/files.hpp"

#include "fuzz_input.hpp"
#include "same.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xstage;
  const auto file = fuzz::parse_or_refuse(parse_samples, fuzz::as_text(data, size));
  if (file) {
    const SamplesFile again = parse_samples(format_samples(*file), "fuzz");
    fuzz::require(same(*file, again), "what parses is formatted and parsed to the same samples");
  }
  return 0;
}
