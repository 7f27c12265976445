/*
 * LD_PRELOAD: appends every change of a file or directory below $RECORD_ROOT to the log $RECORD_LOG, in the order in
 * which the calls returned; a sync also has a record of its beginning. `read-log.js` reads the log. A change that is not
 * recorded, such as a write to mapped memory, shows when the log is compared with the directory at the end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC_BEGIN, SYNC_END, TRUNCATE, CREATE, MKDIR, RENAME, LINK, REMOVE };

struct head {
  uint32_t magic, op;
  uint64_t inode, offset, bytes;
  uint32_t path_bytes, flags;
};

enum { MAGIC = 0x474f4c50, DSYNC = 1, BUFFERS_MAX = 1024 };

static const char *root;
static size_t root_bytes;
static int log_fd = -1;
static char variables[4][PATH_MAX];
static const char *const names[] = {"LD_PRELOAD", "RECORD_ROOT", "RECORD_LOG", "UV_USE_IO_URING"};
static uint32_t syncs;

static long (*raw)(long, ...);

__attribute__((constructor)) static void start(void) {
  raw = dlsym(RTLD_NEXT, "syscall");
  for (int i = 0; i < 4; i++) {
    const char *value = getenv(names[i]);
    snprintf(variables[i], PATH_MAX, "%s=%s", names[i], value ? value : "");
  }
  root = getenv("RECORD_ROOT");
  const char *path = getenv("RECORD_LOG");
  if (!root || !path) return;
  root_bytes = strlen(root);
  log_fd = raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void fail(const char *why) {
  fprintf(stderr, "recorder: %s\n", why);
  abort();
}

/* One writev with O_APPEND, so that records of several processes do not mix. */
static void record(struct head head, const char *path, const struct iovec *data, int count) {
  int error = errno;
  struct iovec all[BUFFERS_MAX];
  int used = 0;
  head.magic = MAGIC;
  head.path_bytes = strlen(path);
  all[used++] = (struct iovec){&head, sizeof head};
  all[used++] = (struct iovec){(void *)path, head.path_bytes};
  size_t left = head.bytes;
  for (int i = 0; i < count && left > 0; i++) {
    if (used == BUFFERS_MAX) fail("too many buffers in one write");
    size_t bytes = data[i].iov_len < left ? data[i].iov_len : left;
    all[used++] = (struct iovec){data[i].iov_base, bytes};
    left -= bytes;
  }
  if (raw(SYS_writev, log_fd, all, used) != (long)(sizeof head + head.path_bytes + head.bytes)) fail("cannot log");
  errno = error;
}

static int is_inside(const char *path) {
  return log_fd >= 0 && strncmp(path, root, root_bytes) == 0 && (path[root_bytes] == '/' || path[root_bytes] == 0);
}

/* The path of an open file or directory below the root; 0 for others. */
static int find(int fd, char *path, struct stat *stat) {
  if (log_fd < 0 || fd == log_fd) return 0;
  int error = errno;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long bytes = raw(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  int found = bytes > 0 && (path[bytes] = 0, is_inside(path)) && fstat(fd, stat) == 0;
  errno = error;
  return found;
}

/* The absolute path of a name in a directory; 0 for one outside of the root. */
static int resolve(int at, const char *name, char *path) {
  if (log_fd < 0 || !name) return 0;
  if (name[0] == '/') snprintf(path, PATH_MAX, "%s", name);
  else {
    char base[PATH_MAX];
    if (at == AT_FDCWD) {
      if (!getcwd(base, sizeof base)) return 0;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", at);
      long bytes = raw(SYS_readlinkat, AT_FDCWD, link, base, PATH_MAX - 1);
      if (bytes <= 0) return 0;
      base[bytes] = 0;
    }
    snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
  }
  return is_inside(path);
}

static uint64_t inode_of(const char *path) {
  struct stat stat;
  return raw(SYS_newfstatat, AT_FDCWD, path, &stat, AT_SYMLINK_NOFOLLOW) == 0 ? stat.st_ino : 0;
}

static void wrote(int fd, const struct iovec *data, int count, off_t offset, long written) {
  char path[PATH_MAX];
  struct stat stat;
  if (written <= 0 || !find(fd, path, &stat) || !S_ISREG(stat.st_mode)) return;
  uint32_t flags = fcntl(fd, F_GETFL) & O_DSYNC ? DSYNC : 0;
  record((struct head){.op = WRITE, .inode = stat.st_ino, .offset = offset, .bytes = written, .flags = flags}, path, data,
         count);
}

static void wrote_here(int fd, const struct iovec *data, int count, long written) {
  if (written > 0 && log_fd >= 0) wrote(fd, data, count, lseek(fd, 0, SEEK_CUR) - written, written);
}

/* Records bytes that were copied from another file, by reading them back. */
static void copied(int fd, off_t offset, long bytes) {
  char path[PATH_MAX];
  struct stat stat;
  if (bytes <= 0 || !find(fd, path, &stat)) return;
  int again = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  char *data = malloc(bytes);
  if (again < 0 || !data || raw(SYS_pread64, again, data, bytes, offset) != bytes) fail("cannot read a copy");
  raw(SYS_close, again);
  wrote(fd, &(struct iovec){data, bytes}, 1, offset, bytes);
  free(data);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  long written = raw(SYS_write, fd, data, bytes);
  wrote_here(fd, &(struct iovec){(void *)data, bytes}, 1, written);
  return written;
}
ssize_t writev(int fd, const struct iovec *data, int count) {
  long written = raw(SYS_writev, fd, data, count);
  wrote_here(fd, data, count, written);
  return written;
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
  long written = raw(SYS_pwrite64, fd, data, bytes, offset);
  wrote(fd, &(struct iovec){(void *)data, bytes}, 1, offset, written);
  return written;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return pwrite64(fd, data, bytes, offset); }
ssize_t pwritev64(int fd, const struct iovec *data, int count, off64_t offset) {
  long written = raw(SYS_pwritev, fd, data, count, offset, 0);
  wrote(fd, data, count, offset, written);
  return written;
}
ssize_t pwritev(int fd, const struct iovec *data, int count, off_t offset) {
  return pwritev64(fd, data, count, offset);
}
ssize_t sendfile64(int to, int from, off64_t *offset, size_t bytes) {
  long sent = raw(SYS_sendfile, to, from, offset, bytes);
  if (sent > 0 && log_fd >= 0) copied(to, lseek(to, 0, SEEK_CUR) - sent, sent);
  return sent;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t bytes) { return sendfile64(to, from, offset, bytes); }
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags) {
  long sent = raw(SYS_copy_file_range, from, from_at, to, to_at, bytes, flags);
  if (sent > 0 && log_fd >= 0) copied(to, (to_at ? *to_at : lseek(to, 0, SEEK_CUR)) - sent, sent);
  return sent;
}


/* libuv calls copy_file_range through syscall(). */
long syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (!raw) raw = dlsym(RTLD_NEXT, "syscall");
  if (number == SYS_copy_file_range) return copy_file_range(a[0], (off64_t *)a[1], a[2], (off64_t *)a[3], a[4], a[5]);
  return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  int result = raw(SYS_ioctl, fd, request, argument);
  struct stat stat;
  if (request == FICLONE && result == 0 && fstat(fd, &stat) == 0) copied(fd, 0, stat.st_size);
  return result;
}

static int synced(int fd, long number) {
  char path[PATH_MAX];
  struct stat stat;
  int is_found = find(fd, path, &stat);
  uint64_t id = ((uint64_t)getpid() << 32) | __sync_add_and_fetch(&syncs, 1);
  uint32_t flags = number == SYS_fsync ? 1 : 0;
  if (is_found) record((struct head){.op = SYNC_BEGIN, .inode = stat.st_ino, .offset = id, .flags = flags}, path, 0, 0);
  int result = raw(number, fd);
  if (is_found && result == 0)
    record((struct head){.op = SYNC_END, .inode = stat.st_ino, .offset = id, .flags = flags}, path, 0, 0);
  return result;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static void resized(int fd) {
  char path[PATH_MAX];
  struct stat stat;
  if (find(fd, path, &stat))
    record((struct head){.op = TRUNCATE, .inode = stat.st_ino, .offset = stat.st_size}, path, 0, 0);
}
int ftruncate64(int fd, off64_t bytes) {
  int result = raw(SYS_ftruncate, fd, bytes);
  if (result == 0) resized(fd);
  return result;
}
int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }
int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) {
  int result = raw(SYS_fallocate, fd, mode, offset, bytes);
  if (result == 0) resized(fd);
  return result;
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) { return fallocate64(fd, mode, offset, bytes); }
int posix_fallocate64(int fd, off64_t offset, off64_t bytes) {
  return fallocate64(fd, 0, offset, bytes) == 0 ? 0 : errno;
}
int posix_fallocate(int fd, off_t offset, off_t bytes) { return posix_fallocate64(fd, offset, bytes); }

static int opened(int at, const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  int may_change = (flags & (O_CREAT | O_TRUNC)) != 0 && resolve(at, name, path);
  uint64_t before = may_change ? inode_of(path) : 0;
  int fd = raw(SYS_openat, at, name, flags, mode);
  if (fd < 0 || !may_change) return fd;
  if (before == 0) record((struct head){.op = CREATE, .inode = inode_of(path)}, path, 0, 0);
  else if (flags & O_TRUNC) resized(fd);
  return fd;
}
static mode_t mode_of(int flags, va_list arguments) {
  return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}
#define OPEN(at)                          \
  va_list arguments;                      \
  va_start(arguments, flags);             \
  mode_t mode = mode_of(flags, arguments); \
  va_end(arguments);                      \
  return opened(at, name, flags, mode)
int open(const char *name, int flags, ...) { OPEN(AT_FDCWD); }
int open64(const char *name, int flags, ...) { OPEN(AT_FDCWD); }
int openat(int at, const char *name, int flags, ...) { OPEN(at); }
int openat64(int at, const char *name, int flags, ...) { OPEN(at); }
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static void named(int op, int at, const char *name, uint64_t inode, const char *from) {
  char path[PATH_MAX];
  if (!resolve(at, name, path)) return;
  struct iovec data = {(void *)from, from ? strlen(from) : 0};
  record((struct head){.op = op, .inode = inode ? inode : inode_of(path), .bytes = data.iov_len}, path, &data, 1);
}
int mkdirat(int at, const char *name, mode_t mode) {
  int result = raw(SYS_mkdirat, at, name, mode);
  if (result == 0) named(MKDIR, at, name, 0, 0);
  return result;
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
char *mkdtemp(char *name) {
  static char *(*next)(char *);
  if (!next) next = dlsym(RTLD_NEXT, "mkdtemp");
  char *result = next(name);
  if (result) named(MKDIR, AT_FDCWD, result, 0, 0);
  return result;
}
int renameat2(int from_at, const char *from, int at, const char *name, unsigned flags) {
  char path[PATH_MAX];
  int is_known = resolve(from_at, from, path);
  int result = raw(SYS_renameat2, from_at, from, at, name, flags);
  if (result == 0) named(RENAME, at, name, 0, is_known ? path : 0);
  return result;
}
int renameat(int from_at, const char *from, int at, const char *name) { return renameat2(from_at, from, at, name, 0); }
int rename(const char *from, const char *name) { return renameat2(AT_FDCWD, from, AT_FDCWD, name, 0); }
int linkat(int from_at, const char *from, int at, const char *name, int flags) {
  int result = raw(SYS_linkat, from_at, from, at, name, flags);
  if (result == 0) named(LINK, at, name, 0, 0);
  return result;
}
int link(const char *from, const char *name) { return linkat(AT_FDCWD, from, AT_FDCWD, name, 0); }
int unlinkat(int at, const char *name, int flags) {
  int result = raw(SYS_unlinkat, at, name, flags);
  if (result == 0) named(REMOVE, at, name, 1, 0);
  return result;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
  int result = unlinkat(AT_FDCWD, name, 0);
  return result < 0 && errno == EISDIR ? rmdir(name) : result;
}

/* Records processes with an environment of their own too. Allocates nothing, as memory may be shared with the parent. */
int execvp(const char *file, char *const arguments[]) {
  char *all[1024];
  int used = 0;
  for (char **each = environ; each && *each && used < 1000; each++) {
    int is_ours = 0;
    for (int i = 0; i < 4; i++) {
      size_t bytes = strlen(names[i]);
      is_ours |= strncmp(*each, names[i], bytes) == 0 && (*each)[bytes] == '=';
    }
    if (!is_ours) all[used++] = *each;
  }
  for (int i = 0; i < 4; i++) all[used++] = variables[i];
  all[used] = 0;
  return execvpe(file, arguments, all);
}
