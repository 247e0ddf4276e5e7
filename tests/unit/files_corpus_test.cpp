/// The corpus of the fuzz targets, by its names: valid-* is read, everything else is refused with a message that names
/// the file.

#include <gtest/gtest.h>

#include <filesystem>

#include "unit/files_examples.hpp"
#include "xstage/audit.hpp"
#include "xstage/files.hpp"

namespace xstage::files_corpus_test {
namespace {

namespace fs = std::filesystem;

template <typename Parser>
void expect_corpus(const std::string& format, Parser parse) {
  int valid = 0;
  int refused = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(XSTAGE_SOURCE_DIR) / "tests/fuzz/corpus" / format)) {
    const std::string name = entry.path().filename().string();
    const std::string text = read_text(entry.path());
    EXPECT_LT(text.size(), 4096U) << name;
    const std::string message = examples::refusal([&] { (void)parse(text, name); });
    if (name.starts_with("valid-")) {
      EXPECT_EQ(message, "<accepted>") << name;
      ++valid;
    } else {
      EXPECT_TRUE(message.starts_with(name + ":")) << name << " -> " << message;
      EXPECT_LT(message.size(), 1000U) << name;
      ++refused;
    }
  }
  EXPECT_GE(valid, 3);
  EXPECT_GE(refused, 15);
}

TEST(Corpus, samples) { expect_corpus("samples", parse_samples); }
TEST(Corpus, platform) { expect_corpus("platform", parse_platform); }
TEST(Corpus, workload) { expect_corpus("workload", parse_workload); }

}  // namespace
}  // namespace xstage::files_corpus_test
