/// Reading bounded, writing atomic: a failed run leaves the old file or none.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "unit/files_examples.hpp"
#include "xstage/files.hpp"

namespace xstage::files_text_test {
namespace {

namespace fs = std::filesystem;
using examples::refusal;

/// An empty folder for each test.
class TextFile : public testing::Test {
 protected:
  TextFile() {
    std::string name = (fs::temp_directory_path() / "xstage-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TextFile() override { fs::remove_all(folder_); }

  [[nodiscard]] std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(TextFile, any_bytes_survive) {
  const std::string text("a\0b\r\n\xff", 6);
  write_text(folder_ / "a", text);
  EXPECT_EQ(read_text(folder_ / "a"), text);
  EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(TextFile, replaces_the_whole_old_content_and_keeps_its_permissions) {
  write_text(folder_ / "a", "a long old text");
  fs::permissions(folder_ / "a", fs::perms::owner_read | fs::perms::owner_write);
  write_text(folder_ / "a", "new");
  EXPECT_EQ(read_text(folder_ / "a"), "new");
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(TextFile, a_link_stays_a_link) {
  write_text(folder_ / "file", "old");
  fs::create_symlink(folder_ / "file", folder_ / "link");
  write_text(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_text(folder_ / "file"), "new");
}

TEST_F(TextFile, a_failed_replacement_leaves_the_old_state_and_no_temporary_file) {
  fs::create_directory(folder_ / "taken");
  EXPECT_NE(refusal([&] { write_text(folder_ / "taken", "text"); }).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal([&] { write_text(folder_ / "missing" / "a", "text"); }).find("does not exist"), std::string::npos);
  EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(TextFile, a_full_device_is_an_error) {
  // /dev/full accepts to be opened and fails every write, as a full disk does.
  ASSERT_TRUE(fs::exists("/dev/full"));
  EXPECT_NE(refusal([&] { write_text("/dev/full", "text"); }).find("/dev/full: cannot write"), std::string::npos);
}

TEST_F(TextFile, devices_are_written_to_and_not_replaced) {
  write_text("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(TextFile, check_writable_leaves_nothing_behind) {
  check_writable(folder_ / "a");
  EXPECT_EQ(files_in_folder(), 0U);
  write_text(folder_ / "a", "old");
  check_writable(folder_ / "a");
  EXPECT_EQ(read_text(folder_ / "a"), "old");
}

TEST_F(TextFile, check_writable_refuses_what_write_would) {
  EXPECT_NE(refusal([&] { check_writable(folder_); }).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal([&] { check_writable(folder_ / "missing" / "a"); }).find("does not exist"), std::string::npos);
  EXPECT_NE(refusal([&] { check_writable(""); }).find("empty"), std::string::npos);
  write_text(folder_ / "file", "");
  EXPECT_NE(refusal([&] { check_writable(folder_ / "file" / "a"); }).find("does not exist"), std::string::npos);
}

TEST_F(TextFile, check_writable_sees_a_folder_without_permission) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write everywhere";
  }
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_NE(refusal([&] { check_writable(folder_ / "a"); }).find("Permission denied"), std::string::npos);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(TextFile, reading_what_is_no_file_says_why) {
  EXPECT_NE(refusal([&] { (void)read_text(folder_ / "a"); }).find("No such file"), std::string::npos);
  EXPECT_NE(refusal([&] { (void)read_text(folder_); }).find("directory"), std::string::npos);
}

TEST_F(TextFile, at_most_64_mebibytes_are_read) {
  const auto file_of = [&](std::uintmax_t size) {
    std::ofstream(folder_ / "big").close();
    fs::resize_file(folder_ / "big", size);  // sparse: costs no disk
    return folder_ / "big";
  };
  EXPECT_EQ(read_text(file_of(64U << 20U)).size(), 64U << 20U);
  EXPECT_NE(refusal([&] { (void)read_text(file_of((64U << 20U) + 1)); }).find("64 MiB"), std::string::npos);
  EXPECT_NE(refusal([&] { (void)read_text("/dev/zero"); }).find("64 MiB"), std::string::npos);
}

}  // namespace
}  // namespace xstage::files_text_test
