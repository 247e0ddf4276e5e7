#include "ops/gemm/bench/cuda/cublas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <library_types.h>

#include <utility>
#include <vector>

#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

constexpr std::size_t workspace_bytes = std::size_t{64} << 20U;
// Values from cublas_api.h.
constexpr int no_transpose = 0;
constexpr int transpose = 1;
constexpr int compute_32f = 68;
constexpr int default_algorithm = -1;

}  // namespace

struct CublasLibrary::EntryPoints {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*version)(void* handle, int* version) = nullptr;
  int (*set_stream)(void* handle, cudaStream_t stream) = nullptr;
  int (*set_workspace)(void* handle, void* workspace, std::size_t bytes) = nullptr;
  int (*gemm)(void* handle, int operation_a, int operation_b, int m, int n, int k, const void* alpha, const void* a,
              cudaDataType_t a_type, int lda, const void* b, cudaDataType_t b_type, int ldb, const void* beta, void* c,
              cudaDataType_t c_type, int ldc, int compute, int algorithm) = nullptr;
};

namespace {

template <typename Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

void check(int status, const char* call, int device) {
  if (status != 0) {
    throw DeviceError(fmt::format("{} on GPU {} failed with cuBLAS status {}", call, device, status));
  }
}

/// Opens the first of these libraries that exists; `reason` is the error of the last one.
void* open_library(const std::vector<std::string>& names, std::string& reason) {
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      return library;
    }
    const char* error = dlerror();
    reason = error == nullptr ? "unknown reason" : error;
  }
  return nullptr;
}

}  // namespace

CublasLibrary::CublasLibrary(std::unique_ptr<EntryPoints> entry_points) : entry_points_(std::move(entry_points)) {}

// The library stays loaded: it has handlers of its own that run when the process ends.
CublasLibrary::~CublasLibrary() = default;

std::shared_ptr<const CublasLibrary> CublasLibrary::load(const std::string& path, std::string& why_absent) {
  const std::vector<std::string> usual{"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  std::string reason;
  void* opened = open_library(path.empty() ? usual : std::vector<std::string>{path}, reason);
  if (opened == nullptr) {
    if (!path.empty()) {
      throw InputError(fmt::format("cuBLAS cannot be loaded from '{}': {}", path, reason));
    }
    why_absent = fmt::format("cuBLAS was not found ({}); name its file, or its folder in LD_LIBRARY_PATH", reason);
    return nullptr;
  }
  auto points = std::make_unique<EntryPoints>();
  const bool complete =
      resolve(opened, "cublasCreate_v2", points->create) && resolve(opened, "cublasDestroy_v2", points->destroy) &&
      resolve(opened, "cublasGetVersion_v2", points->version) &&
      resolve(opened, "cublasSetStream_v2", points->set_stream) &&
      resolve(opened, "cublasSetWorkspace_v2", points->set_workspace) && resolve(opened, "cublasGemmEx", points->gemm);
  std::shared_ptr<const CublasLibrary> library(new CublasLibrary(std::move(points)));
  if (!complete) {
    throw InputError("the cuBLAS that was found lacks functions that are used: it must be of CUDA 11 or later");
  }
  return library;
}

CublasHandle::CublasHandle(std::shared_ptr<const CublasLibrary> library, int device, cudaStream_t stream)
    : library_(std::move(library)), device_(device), workspace_(device, workspace_bytes, "the workspace of cuBLAS") {
  const cuda::CurrentDevice current(device);
  const CublasLibrary::EntryPoints& points = library_->entry_points();
  check(points.create(&handle_), "cublasCreate", device);
  // The order matters: setting a stream resets the workspace.
  check(points.set_stream(handle_, stream), "cublasSetStream", device);
  check(points.set_workspace(handle_, workspace_.as<void>(), workspace_bytes), "cublasSetWorkspace", device);
}

CublasHandle::CublasHandle(CublasHandle&& other) noexcept
    : library_(std::move(other.library_)),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)),
      workspace_(std::move(other.workspace_)) {}

CublasHandle::~CublasHandle() {
  if (handle_ != nullptr) {
    static_cast<void>(library_->entry_points().destroy(handle_));
  }
}

/// cuBLAS knows columns only. Row-major C is column-major C^T [n, m] = B [n, k] * A^T [k, m], and row-major B and A are
/// column-major [k, n] and [k, m].
void CublasHandle::multiply(const GemmShape& shape, const void* a, const void* b, void* c) const {
  const cuda::CurrentDevice current(device_);
  const float one = 1.0F;
  const float zero = 0.0F;
  const auto m = static_cast<int>(shape.m);
  const auto n = static_cast<int>(shape.n);
  const auto k = static_cast<int>(shape.k);
  check(library_->entry_points().gemm(handle_, transpose, no_transpose, n, m, k, &one, b, CUDA_R_16BF, k, a,
                                      CUDA_R_16BF, k, &zero, c, CUDA_R_16BF, n, compute_32f, default_algorithm),
        "cublasGemmEx", device_);
}

std::string CublasHandle::version() const {
  int version = 0;
  check(library_->entry_points().version(handle_, &version), "cublasGetVersion", device_);
  // 130100 is 13.1.0.
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace xstage::bench
