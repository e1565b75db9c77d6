/* Two ranks pass a message there and back and compare every byte: on GPU memory where there is a GPU, else on the
   host's.  The CUDA driver is opened at run time, so that this compiles without CUDA and runs without a driver.
   Rank 0 prints one line of JSON. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 8, LARGE = 1 << 20 }; /* one that UCX sends eagerly and one by rendezvous: they take different ways */

typedef unsigned long long Device;
static int (*copy_in)(Device, const void*, size_t);
static int (*copy_out)(void*, Device, size_t);
static int (*allocate)(Device*, size_t);
static const char* why_host = "";

static void* driver_function(void* driver, const char* name) {
    void* found = dlsym(driver, name);
    if (!found) why_host = "the CUDA driver is too old";
    return found;
}

/* Make a GPU this rank's own; return how many there are, 0 with a reason where none can be used. */
static int open_gpu(int local_rank) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver) { why_host = "there is no NVIDIA driver"; return 0; }
    int (*init)(unsigned) = (int (*)(unsigned))driver_function(driver, "cuInit");
    int (*count)(int*) = (int (*)(int*))driver_function(driver, "cuDeviceGetCount");
    int (*retain)(void**, int) = (int (*)(void**, int))driver_function(driver, "cuDevicePrimaryCtxRetain");
    int (*current)(void*) = (int (*)(void*))driver_function(driver, "cuCtxSetCurrent");
    allocate = (int (*)(Device*, size_t))driver_function(driver, "cuMemAlloc_v2");
    copy_in = (int (*)(Device, const void*, size_t))driver_function(driver, "cuMemcpyHtoD_v2");
    copy_out = (int (*)(void*, Device, size_t))driver_function(driver, "cuMemcpyDtoH_v2");
    if (why_host[0]) return 0;
    int devices = 0;
    void* context = NULL;
    if (init(0) || count(&devices) || devices == 0) { why_host = "the NVIDIA driver offers no GPU"; return 0; }
    if (retain(&context, local_rank % devices) || current(context)) { why_host = "the GPU cannot be used"; return 0; }
    return devices;
}

static unsigned char byte_of(size_t i, int direction) { return (unsigned char)(i * 131 + i / 256 * 7 + (direction ? 85 : 17)); }

static void check(int status, const char* what) {
    if (status == 0) return;
    fprintf(stderr, "%s failed with CUDA error %d\n", what, status);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(void* buffer, int gpu, unsigned char* host, int size, int direction, int poison) {
    for (int i = 0; i < size; ++i) host[i] = (unsigned char)(byte_of((size_t)i, direction) ^ (poison ? 255 : 0));
    if (gpu) check(copy_in((Device)buffer, host, (size_t)size), "cuMemcpyHtoD");
    else memcpy(buffer, host, (size_t)size);
}

static long wrong(const void* buffer, int gpu, unsigned char* host, int size, int direction) {
    if (gpu) check(copy_out(host, (Device)buffer, (size_t)size), "cuMemcpyDtoH");
    else memcpy(host, buffer, (size_t)size);
    long count = 0;
    for (int i = 0; i < size; ++i) count += host[i] != byte_of((size_t)i, direction);
    return count;
}

static void* buffer_of(int gpu) {
    if (!gpu) return malloc(LARGE);
    Device memory = 0;
    check(allocate(&memory, LARGE), "cuMemAlloc");
    return (void*)memory;
}

/* The receive buffer holds the complement of what should come: a byte that does not arrive is caught for certain. */
static long there_and_back(int rank, int gpu, int size, void* out, void* in, unsigned char* host) {
    int const mine = rank, theirs = 1 - rank;
    fill(out, gpu, host, size, mine, 0);
    fill(in, gpu, host, size, theirs, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_Send(out, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(in, size, MPI_BYTE, theirs, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long const bad = wrong(in, gpu, host, size, theirs);
    if (rank == 1) MPI_Send(out, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    return bad;
}

int main(int argc, char** argv) {
    const char* local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int rank = 0, ranks = 0, length = 0;
    int gpus = argc > 1 && strcmp(argv[1], "host") == 0 ? 0 : open_gpu(local ? atoi(local) : 0);
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(library, &length);
    for (char* c = library; *c; ++c)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = ' '; /* harmless in JSON */
    if (ranks != 2) {
        fprintf(stderr, "%d ranks instead of 2: is this mpirun the one of this MPI?\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int both = 0, gpu = gpus > 0;
    MPI_Allreduce(&gpu, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    void *out = buffer_of(both), *in = buffer_of(both);
    unsigned char* host = malloc(LARGE);
    long bad = there_and_back(rank, both, SMALL, out, in, host) + there_and_back(rank, both, LARGE, out, in, host), all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"memory\": \"%s\", \"gpus\": %d, \"why_host\": \"%s\", \"sizes_bytes\": [%d, %d], "
               "\"wrong_bytes\": %ld, \"library\": \"%s\"}\n",
               both ? "device" : "host", gpus, why_host, SMALL, LARGE, all, library);
    MPI_Finalize();
    return all != 0;
}
