/// Whole text files: bounded reading, atomic writing.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file_bytes = std::size_t{64} << 20;

[[noreturn]] void fail(const fs::path& path, std::string_view what, int error_number) {
  throw InputError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(error_number)));
}

/// Closes the descriptor on every way out.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(); }

  [[nodiscard]] int get() const { return descriptor_; }
  /// Returns 0 or the error number: a full disk or a lost file server may show up only here.
  int close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 || ::close(descriptor) == 0 ? 0 : errno;
  }

 private:
  int descriptor_;
};

/// Appends at most `limit` bytes; returns 0 or the error number.
int read_up_to(int descriptor, std::size_t limit, std::string& text) {
  constexpr std::size_t chunk = std::size_t{1} << 16;
  while (text.size() < limit) {
    const std::size_t held = text.size();
    text.resize(held + std::min(chunk, limit - held));
    const ssize_t count = ::read(descriptor, text.data() + held, text.size() - held);
    const int error_number = errno;
    text.resize(held + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) {
      return 0;
    }
    if (count < 0 && error_number != EINTR) {
      return error_number;
    }
  }
  return 0;
}

/// Returns 0 or the error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  return 0;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// A link is followed, so that the file behind it is replaced and not the link.
fs::path behind_links(const fs::path& path) {
  std::error_code ignored;
  fs::path resolved = fs::canonical(path, ignored);
  return ignored ? path : resolved;
}

/// Pipes and devices (/dev/stdout, /dev/null) have no old content to keep and must never be replaced by a file.
bool is_stream(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void refuse_impossible_target(const fs::path& path) {
  std::error_code ignored;
  if (path.empty()) {
    throw InputError("output file: the name is empty");
  }
  if (fs::is_directory(path, ignored)) {
    throw InputError(fmt::format("{}: is a folder; an output must be a file", path.string()));
  }
  if (!fs::is_directory(folder_of(path), ignored)) {
    throw InputError(
        fmt::format("{}: cannot write: the folder {} does not exist", path.string(), folder_of(path).string()));
  }
}

/// A new file beside `target` that is removed unless it takes the target's place.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path target)
      : target_(std::move(target)), path_(unused_name(target_)), file_(create(target_, path_)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!replaced_target_) {
      ::unlink(path_.c_str());
    }
  }

  void write(std::string_view text) {
    if (const int error_number = write_all(file_.get(), text); error_number != 0) {
      fail(target_, "cannot write", error_number);
    }
  }

  /// On return either the old content or the new one survives a power failure, never a mixture.
  void replace_target() {
    keep_permissions();
    if (::fsync(file_.get()) != 0) {
      fail(target_, "cannot write", errno);
    }
    if (const int error_number = file_.close(); error_number != 0) {
      fail(target_, "cannot write", error_number);
    }
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      fail(target_, "cannot replace", errno);
    }
    replaced_target_ = true;
    sync_folder();
  }

 private:
  static fs::path unused_name(const fs::path& target) {
    static std::atomic<unsigned> serial{0};
    return folder_of(target) / fmt::format(".xstage-{}-{}.tmp", ::getpid(), serial.fetch_add(1));
  }

  static int create(const fs::path& target, const fs::path& path) {
    // 0666 and the user's umask, as any program that creates a document.
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) {
      fail(target, fmt::format("cannot create a file in {}", folder_of(target).string()), errno);
    }
    return descriptor;
  }

  /// A file that is replaced keeps its mode; if that fails the new one is still right in content.
  void keep_permissions() const {
    struct stat old {};
    if (::stat(target_.c_str(), &old) == 0) {
      (void)::fchmod(file_.get(), old.st_mode & 07777U);
    }
  }

  /// Makes the new name itself durable. The content is safe already, so file systems that refuse this are no error.
  void sync_folder() const {
    const FileDescriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() >= 0) {
      (void)::fsync(folder.get());
    }
  }

  fs::path target_;
  fs::path path_;
  FileDescriptor file_;
  bool replaced_target_ = false;
};

FileDescriptor open_stream(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) {
    fail(path, "cannot write", errno);
  }
  return FileDescriptor(descriptor);
}

std::string read_open(const fs::path& path, const FileDescriptor& file) {
  if (file.get() < 0) {
    fail(path, "cannot read", errno);
  }
  std::string text;
  if (const int error_number = read_up_to(file.get(), largest_file_bytes + 1, text); error_number != 0) {
    fail(path, "cannot read", error_number);
  }
  if (text.size() > largest_file_bytes) {
    throw InputError(
        fmt::format("{}: larger than {} bytes (64 MiB), the most that is read", path.string(), largest_file_bytes));
  }
  return text;
}

}  // namespace

std::string read_text(const fs::path& path) {
  if (path == "-") {
    // Standard input can be read only once, so later calls return the same text.
    static const std::string standard_input = read_open(path, FileDescriptor(::dup(STDIN_FILENO)));
    return standard_input;
  }
  return read_open(path, FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
}

void write_text(const fs::path& path, std::string_view text) {
  refuse_impossible_target(path);
  if (is_stream(path)) {
    const FileDescriptor stream = open_stream(path);
    if (const int error_number = write_all(stream.get(), text); error_number != 0) {
      fail(path, "cannot write", error_number);
    }
    return;
  }
  TemporaryFile file(behind_links(path));
  file.write(text);
  file.replace_target();
}

void check_writable(const fs::path& path) {
  refuse_impossible_target(path);
  if (is_stream(path)) {
    const FileDescriptor stream = open_stream(path);
    return;
  }
  // Creates a file as a test, since only that detects read-only file systems, quotas and access lists alike; it is
  // removed on the way out.
  const TemporaryFile probe(behind_links(path));
}

}  // namespace xstage
