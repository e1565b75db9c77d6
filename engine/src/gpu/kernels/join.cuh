// Barriers that join the threads of a block, or of a cluster of blocks: after wait() each of them sees what the others
// stored before it. A warp takes part with all its threads, or has left the kernel with all of them.
#pragma once

#include <nv/target>

namespace volley::gpu::kernels {

struct JoinBlock {
  __device__ static void wait() {
    if (blockDim.x <= 32) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

// Only in kernels that are launched as one cluster: gpu::max_cluster_blocks says whether that is possible. Default
// semantics, release and acquire at the scope of the cluster (PTX ISA, "barrier.cluster"). `aligned`: all threads of a
// warp take part together.
struct JoinCluster {
  __device__ static void wait() {
    __syncwarp();
    NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                                                  "barrier.cluster.wait.acquire.aligned;" :: : "memory");))
  }
};

}  // namespace volley::gpu::kernels
