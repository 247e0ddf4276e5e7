#pragma once
// XSTAGE_HOST_DEVICE: of functions that kernels and host share, in headers that a host compiler reads as well.

#ifdef __CUDACC__
#define XSTAGE_HOST_DEVICE __host__ __device__
#else
#define XSTAGE_HOST_DEVICE
#endif
