#pragma once
// XSTAGE_HOST_DEVICE marks functions that kernels and the host share, in headers that a host compiler reads as well.

#ifdef __CUDACC__
#define XSTAGE_HOST_DEVICE __host__ __device__
#else
#define XSTAGE_HOST_DEVICE
#endif
