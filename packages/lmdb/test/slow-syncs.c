/*
 * LD_PRELOAD: fsync, fdatasync and msync take $SYNC_MS milliseconds longer, as on a slow disk. Under strace, which can
 * delay them too, a process inside the gate looks stopped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static void delay(void) {
  const char *text = getenv("SYNC_MS");
  long ms = text ? atol(text) : 0;
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int fsync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  delay();
  return real(fd);
}

int fdatasync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  delay();
  return real(fd);
}

int msync(void *start, size_t bytes, int flags) {
  int (*real)(void *, size_t, int) = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "msync");
  delay();
  return real(start, bytes, flags);
}
