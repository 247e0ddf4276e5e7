/// Runs a fuzz target without libFuzzer: every file of a corpus folder, every prefix of it (a truncated file is the
/// damage that happens most), then deterministic mutations.
///   NAME_fuzz_replay CORPUS_FOLDER [MUTATIONS]

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "xstage/files.hpp"

#include "fuzz_input.hpp"
#include "mutation.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t seed = 20260723;
constexpr unsigned long default_mutations = 5000;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the folder's own order differs between machines
  return files;
}

/// Returns whether the target took the input; prints the case if not.
bool survives(const std::string& input, const std::string& name) {
  // Exactly as long as the input, so that the address sanitizer sees a read past the end.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  try {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAILED: %s: %s\n---- input ----\n%s\n---- end ----\n", name.c_str(), error.what(),
                 input.c_str());
    return false;
  }
}

unsigned long replay_prefixes(const std::vector<fs::path>& files, std::vector<std::string>& corpus) {
  unsigned long failures = 0;
  for (const fs::path& file : files) {
    corpus.push_back(xstage::read_text(file));
    const std::string& text = corpus.back();
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const std::string name = file.filename().string() + ", first " + std::to_string(size) + " bytes";
      failures += survives(text.substr(0, size), name) ? 0UL : 1UL;
    }
  }
  return failures;
}

unsigned long replay_mutations(const std::vector<std::string>& corpus, unsigned long mutations) {
  xstage::fuzz::Mutator mutator(corpus, seed);
  unsigned long failures = 0;
  for (unsigned long index = 0; index < mutations; ++index) {
    failures += survives(mutator.next(), "mutation " + std::to_string(index)) ? 0UL : 1UL;
  }
  return failures;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [MUTATIONS]\n", arguments[0]);
    return 2;
  }
  const unsigned long mutations = argument_count > 2 ? std::strtoul(arguments[2], nullptr, 10) : default_mutations;
  const std::vector<fs::path> files = files_of(arguments[1]);
  if (files.empty()) {
    std::fprintf(stderr, "%s: holds no file: nothing would be tested\n", arguments[1]);
    return 2;
  }
  std::vector<std::string> corpus;
  const unsigned long failures = replay_prefixes(files, corpus) + replay_mutations(corpus, mutations);
  std::printf("%zu corpus files with all their prefixes, %lu mutations, %lu failures\n", files.size(), mutations,
              failures);
  return failures == 0 ? 0UL : 1UL;
}
