// A program that copies what it sends and receives, and, with -DCUPTI, a CUPTI that tells of its copies.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef CUPTI
static void (*on_call)(void*, int, uint32_t, void*);
static void (*take_buffer)(void*, uint32_t, uint8_t*, size_t, size_t);
static char enabled[4096];
static const char* const names[] = {[276] = "cuMemcpyHtoD_v2", [45] = "cuMemcpyDtoH", [278] = "cuMemcpyDtoH_v2",
                                    [288] = "cuMemcpy2DUnaligned_v2", [306] = "cuMemcpyAsync", [310] = "cuMemcpyPeer"};
enum { NAMES = sizeof names / sizeof *names };
static struct work {
  uint32_t activity;
  uint8_t work, more[3];
  uint64_t bytes, begin, end;
  uint32_t device, context, stream, correlation;
} done[4096];
static uint32_t number, given;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
int cuptiSubscribe(void** subscriber, void* callback, void* user) {
  *subscriber = user;
  on_call = callback;
  return 0;
}
int cuptiGetCallbackName(int domain, uint32_t id, const char** name) {
  *name = id < NAMES ? names[id] : NULL;
  return domain != 1 || *name == NULL;
}
int cuptiEnableCallback(uint32_t on, void* subscriber, int domain, uint32_t id) {
  enabled[id] = (char)(on && domain == 1 && subscriber == NULL);
  return 0;
}
int cuptiActivityRegisterCallbacks(void* give, void* take) {
  take_buffer = take;
  return give == NULL;
}
int cuptiActivityEnable(int kind) { return kind != 1; }
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, struct work** its) {
  struct work* const next = *its == NULL ? (struct work*)buffer : *its + 1;
  if ((uint8_t*)next >= buffer + valid) return 1;
  *its = next;
  return 0;
}
int cuptiActivityFlushAll(uint32_t flag) {
  const size_t bytes = (number - given) * sizeof *done;
  uint8_t* const buffer = malloc(bytes + 1);
  memcpy(buffer, done + given, bytes);
  given = number;
  take_buffer(NULL, 0, buffer, bytes, bytes);
  return (int)flag;
}
void copy(uint32_t id, void* to, void* from, uint64_t bytes, uint8_t work) {
  uint64_t flat[] = {(uint64_t)to, (uint64_t)from, bytes}, kept = 0;
  // x, y, kind of memory, in host memory, in GPU memory, array, pitch; the same of the destination; width, height
  uint64_t rows[] = {8, 1, 2, 0, (uint64_t)from - 1032, 0, 1024, 0, 0, 1, (uint64_t)to, 0, 0, 64, 64, bytes / 64};
  uint64_t address = (uint64_t)rows;
  struct { int at_exit; const char* name; void* arguments; void* unused[3]; uint32_t context; uint64_t* kept; uint32_t correlation; }
      site = {0, names[id], strstr(names[id], "2D") ? (void*)&address : (void*)flat, {0}, 0, &kept, number};
  if (enabled[id]) on_call(NULL, 1, id, &site);
  const uint64_t begin = now_ns();
  memcpy(to, from, bytes);
  const uint32_t activity = strstr(names[id], "2D") ? 0 : 1;  // of rows that are apart it does not tell
  done[number] = (struct work){activity, work, {0}, bytes, begin, now_ns(), 0, 0, 0, number};
  ++number;
  site.at_exit = 1;
  if (enabled[id]) on_call(NULL, 1, id, &site);
}
#else
#include <mpi.h>

int main(int argc, char** argv) {
  enum { bytes = 4096, rounds = 10 };
  static char mine[bytes], theirs[bytes], on_gpu[2 * bytes + 2048];
  char* const gpu = on_gpu + 1032;
  int rank;
  double sum = 1, all, own = 2;
  ((int (*)(void))dlsym(dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW), "InitializeInjection"))();
  void (*copy)(uint32_t, void*, void*, uint64_t, uint8_t) =
      (void (*)(uint32_t, void*, void*, uint64_t, uint8_t))dlsym(dlopen(getenv("VOLLEY_TRACE_CUPTI"), RTLD_NOW), "copy");
  copy(278, mine, gpu, bytes, 2);  // before MPI_Init: not in the trace
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int round = 0; round < rounds; ++round) {
    copy(round % 2 ? 278 : 288, mine, gpu, bytes, 2);
    MPI_Sendrecv(mine, bytes, MPI_BYTE, 1 - rank, 0, theirs, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    copy(round % 2 ? 276 : 306, gpu, theirs, bytes, 1);
    copy(276, gpu, &own, sizeof own, 1);  // received by no call
    copy(278, &sum, gpu, sizeof sum, 2);
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    copy(310, gpu, theirs, bytes, 10);  // between GPUs
  }
  MPI_Finalize();
}
#endif
