#pragma once
// cuBLAS, loaded at run time, since a baseline must not become a dependency. Its few entry points are declared here.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "device/device_memory.hpp"
#include "ops/gemm/bench/cells.hpp"

namespace xstage::bench {

class CublasLibrary {
 public:
  struct EntryPoints;

  /// `path`: a file, or empty for the usual names. Null with `why_absent` filled if there is none; a file that was
  /// named but cannot be loaded is an InputError.
  static std::shared_ptr<const CublasLibrary> load(const std::string& path, std::string& why_absent);
  ~CublasLibrary();
  CublasLibrary(const CublasLibrary&) = delete;
  CublasLibrary& operator=(const CublasLibrary&) = delete;
  [[nodiscard]] const EntryPoints& entry_points() const { return *entry_points_; }

 private:
  explicit CublasLibrary(std::unique_ptr<EntryPoints> entry_points);
  std::unique_ptr<EntryPoints> entry_points_;
};

/// One GPU's handle on one stream.
class CublasHandle {
 public:
  CublasHandle(std::shared_ptr<const CublasLibrary> library, int device, cudaStream_t stream);
  ~CublasHandle();
  CublasHandle(CublasHandle&& other) noexcept;
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  CublasHandle& operator=(CublasHandle&&) = delete;

  /// C[m, n] = A[m, k] * B[n, k]^T, row-major bf16, fp32 accumulation.
  void multiply(const GemmShape& shape, const void* a, const void* b, void* c) const;
  [[nodiscard]] std::string version() const;  // "13.1.0"

 private:
  std::shared_ptr<const CublasLibrary> library_;
  int device_;
  void* handle_ = nullptr;
  cuda::DeviceBuffer workspace_;
};

}  // namespace xstage::bench
