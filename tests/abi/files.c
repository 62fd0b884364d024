// SPDX-License-Identifier: MIT
// A program that looks for the files of an adapter with every function that the forwarders answer.
// It does not use verbs.
//   files --soft        checks the files of soft0
//   files --absent      checks that there are none
//   files --other PATH...  prints what each function reports for other paths
//   files --threads, --fork, --signal, --vfork, --closed, --cancel  checks these situations
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE "/sys/class/infiniband/soft0"
#define PORT DEVICE "/ports/1"

static int failures;

static void check(int good, const char* what, const char* path) {
  if (good) return;
  ++failures;
  fprintf(stderr, "%s of %s is wrong: errno %d\n", what, path, errno);
}

static void* function(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "%s does not exist\n", name);
    exit(2);
  }
  return found;
}

typedef int open_function(const char*, int, ...);
typedef int openat_function(int, const char*, int, ...);
typedef FILE* fopen_function(const char*, const char*);
typedef int stat_function(const char*, struct stat*);
typedef int xstat_function(int, const char*, struct stat*);
typedef int fstatat_function(int, const char*, struct stat*, int);
typedef int fxstatat_function(int, int, const char*, struct stat*, int);
typedef int access_function(const char*, int);
typedef int scandir_function(const char*, struct dirent***, int (*)(const struct dirent*),
                             int (*)(const struct dirent**, const struct dirent**));

static const char* const opens[] = {"open", "open64", "__open_2", "__open64_2"};
static const char* const openats[] = {"openat", "openat64", "__openat_2", "__openat64_2"};
static const char* const fopens[] = {"fopen", "fopen64"};
static const char* const stats[] = {"stat", "stat64", "lstat", "lstat64"};
static const char* const xstats[] = {"__xstat", "__xstat64", "__lxstat", "__lxstat64"};
static const char* const fstatats[] = {"fstatat", "fstatat64"};
static const char* const fxstatats[] = {"__fxstatat", "__fxstatat64"};
static const char* const accesses[] = {"access", "eaccess", "euidaccess"};
static const char* const scandirs[] = {"scandir", "scandir64"};
#define COUNT(list) (sizeof(list) / sizeof *(list))
#if defined(__x86_64__)
enum { stat_version = 1 };
#else
enum { stat_version = 0 };
#endif

// The result of a function, errno, and the kind of the file.
struct report {
  const char* name;
  long result;
  int error;
  unsigned kind;
  char text[512];
};

typedef void visitor(const char* path, const struct report* report);

static void read_all(int file, struct report* report) {
  const ssize_t count = read(file, report->text, sizeof report->text - 1);
  if (count < 0) report->error = errno;
  report->result = count;
  if (count >= 0) report->text[count] = '\0';
  close(file);
}

static void report_opened(const char* path, struct report report, int file, visitor* visit) {
  report.error = errno;
  report.result = file;
  if (file >= 0) read_all(file, &report);
  visit(path, &report);
}

static void visit_opens(const char* path, visitor* visit) {
  for (size_t i = 0; i < COUNT(opens); ++i) {
    errno = 0;
    const int file = ((open_function*)function(opens[i]))(path, O_RDONLY | O_CLOEXEC);
    report_opened(path, (struct report){.name = opens[i]}, file, visit);
  }
  for (size_t i = 0; i < COUNT(openats); ++i) {
    errno = 0;
    const int file = ((openat_function*)function(openats[i]))(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    report_opened(path, (struct report){.name = openats[i]}, file, visit);
  }
  for (size_t i = 0; i < COUNT(fopens); ++i) {
    struct report report = {.name = fopens[i]};
    errno = 0;
    FILE* const file = ((fopen_function*)function(fopens[i]))(path, "re");
    report.result = file != NULL ? (long)fread(report.text, 1, sizeof report.text - 1, file) : -1;
    report.error = errno;
    if (file != NULL) fclose(file);
    visit(path, &report);
  }
}

static void report_stat(const char* path, const char* name, int result, const struct stat* about,
                        visitor* visit) {
  struct report report = {.name = name, .result = result, .error = errno};
  if (result == 0) report.kind = about->st_mode;
  visit(path, &report);
}

static void visit_stats(const char* path, visitor* visit) {
  struct stat about;
  memset(&about, 0, sizeof about);
  for (size_t i = 0; i < COUNT(stats); ++i) {
    errno = 0;
    report_stat(path, stats[i], ((stat_function*)function(stats[i]))(path, &about), &about, visit);
  }
  for (size_t i = 0; i < COUNT(xstats); ++i) {
    errno = 0;
    report_stat(path, xstats[i], ((xstat_function*)function(xstats[i]))(stat_version, path, &about),
                &about, visit);
  }
  for (int flags = 0; flags <= AT_SYMLINK_NOFOLLOW; flags += AT_SYMLINK_NOFOLLOW) {
    const char* const kind = flags != 0 ? "lstat at" : "stat at";
    for (size_t i = 0; i < COUNT(fstatats); ++i) {
      errno = 0;
      report_stat(path, kind,
                  ((fstatat_function*)function(fstatats[i]))(AT_FDCWD, path, &about, flags), &about,
                  visit);
      errno = 0;
      report_stat(
          path, kind,
          ((fxstatat_function*)function(fxstatats[i]))(stat_version, AT_FDCWD, path, &about, flags),
          &about, visit);
    }
    struct statx extended;
    memset(&extended, 0, sizeof extended);
    errno = 0;
    const int result = statx(AT_FDCWD, path, flags, STATX_BASIC_STATS, &extended);
    about.st_mode = extended.stx_mode;
    report_stat(path, kind, result, &about, visit);
  }
}

static int by_name(const struct dirent** one, const struct dirent** other) {
  return strcmp((*one)->d_name, (*other)->d_name);
}

static void visit_folders(const char* path, visitor* visit) {
  for (size_t i = 0; i < COUNT(scandirs); ++i) {
    struct report report = {.name = scandirs[i]};
    struct dirent** names = NULL;
    errno = 0;
    report.result = ((scandir_function*)function(scandirs[i]))(path, &names, NULL, &by_name);
    report.error = errno;
    for (long each = 0; each < report.result; ++each) {
      const size_t used = strlen(report.text);
      snprintf(report.text + used, sizeof report.text - used, "%s ", names[each]->d_name);
      free(names[each]);
    }
    if (report.result >= 0) free(names);
    visit(path, &report);
  }
  struct report report = {.name = "opendir"};
  errno = 0;
  DIR* const folder = opendir(path);
  report.error = errno;
  report.result = folder != NULL ? 0 : -1;
  while (folder != NULL && readdir(folder) != NULL) ++report.result;
  if (folder != NULL) closedir(folder);
  visit(path, &report);
}

static void visit_names(const char* path, visitor* visit) {
  for (size_t i = 0; i < COUNT(accesses); ++i) {
    struct report report = {.name = accesses[i]};
    errno = 0;
    report.result = ((access_function*)function(accesses[i]))(path, R_OK);
    report.error = errno;
    visit(path, &report);
  }
  struct report at = {.name = "faccessat"};
  errno = 0;
  at.result = faccessat(AT_FDCWD, path, F_OK, 0);
  at.error = errno;
  visit(path, &at);

  struct report link = {.name = "readlink"};
  errno = 0;
  link.result = readlink(path, link.text, sizeof link.text - 1);
  link.error = errno;
  visit(path, &link);
  struct report link_at = {.name = "readlinkat"};
  errno = 0;
  link_at.result = readlinkat(AT_FDCWD, path, link_at.text, sizeof link_at.text - 1);
  link_at.error = errno;
  visit(path, &link_at);

  char buffer[PATH_MAX];
  for (int allocates = 0; allocates < 2; ++allocates) {
    struct report real = {.name = "realpath"};
    errno = 0;
    char* const resolved = realpath(path, allocates ? NULL : buffer);
    real.error = resolved != NULL ? 0 : errno;
    real.result = resolved != NULL ? 0 : -1;
    if (resolved != NULL) snprintf(real.text, sizeof real.text, "%.500s", resolved);
    if (allocates) free(resolved);
    visit(path, &real);
  }
}

static void visit_all(const char* path, visitor* visit) {
  visit_opens(path, visit);
  visit_stats(path, visit);
  visit_folders(path, visit);
  visit_names(path, visit);
}

static void print(const char* path, const struct report* report) {
  printf("%s %s: %ld %s %o %s\n", report->name, path, report->result,
         report->error != 0 ? strerrorname_np(report->error) : "", report->kind, report->text);
}

static int is_one_of(const char* name, const char* const* names, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (strcmp(name, names[i]) == 0) return 1;
  return 0;
}

static int reads(const char* name) {
  return is_one_of(name, opens, COUNT(opens)) || is_one_of(name, openats, COUNT(openats)) ||
         is_one_of(name, fopens, COUNT(fopens));
}

static int is_link_call(const char* name) { return strncmp(name, "readlink", 8) == 0; }

// An attribute with the text `expected`.
static const char* expected;
static void check_attribute(const char* path, const struct report* report) {
  const char* const name = report->name;
  if (reads(name)) {
    check(strcmp(report->text, expected) == 0, name, path);
  } else if (report->kind != 0) {
    check(S_ISREG(report->kind) && (report->kind & 0777) == 0444, name, path);
  } else if (is_link_call(name)) {
    check(report->result == -1 && report->error == EINVAL, name, path);
  } else if (strstr(name, "dir") != NULL) {
    check(report->result == -1 && report->error == ENOTDIR, name, path);
  } else {
    check(report->result == 0, name, path);
    if (strcmp(name, "realpath") == 0)
      check(strncmp(report->text, "/sys/devices/virtual/infiniband", 31) == 0, name, path);
  }
}

// An attribute that the kernel refuses to read.
static void check_refused(const char* path, const struct report* report) {
  if (strncmp(report->name, "fopen", 5) == 0)
    check(report->result == 0 && report->error == EINVAL, report->name, path);
  else if (reads(report->name))
    check(report->result == -1 && report->error == EINVAL, report->name, path);
  else if (report->kind != 0)
    check(S_ISREG(report->kind), report->name, path);
}

static void check_folder(const char* path, const struct report* report) {
  if (reads(report->name))
    check(report->result <= 0 && report->error == EISDIR, report->name, path);
  else if (report->kind != 0)
    check(S_ISDIR(report->kind), report->name, path);
  else if (strstr(report->name, "dir") != NULL)
    check(report->result > 2, report->name, path);
}

static void check_link(const char* path, const struct report* report) {
  if (is_link_call(report->name))
    check(strcmp(report->text, "../../devices/virtual/infiniband/soft0") == 0, report->name, path);
  else if (report->kind != 0)
    check(strstr(report->name, "lstat") != NULL || strstr(report->name, "lxstat") != NULL
              ? S_ISLNK(report->kind)
              : S_ISDIR(report->kind),
          report->name, path);
  else if (strcmp(report->name, "realpath") == 0)
    check(strcmp(report->text, "/sys/devices/virtual/infiniband/soft0") == 0, report->name, path);
}

static void check_node(const char* path, const struct report* report) {
  if (report->kind != 0)
    check(S_ISCHR(report->kind) && (report->kind & 0777) == 0666, report->name, path);
  else if (is_one_of(report->name, accesses, COUNT(accesses)))
    check(report->result == 0, report->name, path);
}

static void check_missing(const char* path, const struct report* report) {
  check(report->result == -1 && report->error == ENOENT, report->name, path);
}

static void check_text(const char* path, const char* text) {
  expected = text;
  visit_all(path, &check_attribute);
}

static void check_soft0(void) {
  check_text(DEVICE "/node_type", "1: CA\n");
  check_text(DEVICE "/node_desc", "soft0\n");
  check_text(PORT "/state", "4: ACTIVE\n");
  check_text(PORT "/phys_state", "5: LinkUp\n");
  check_text(PORT "/link_layer", "Ethernet\n");
  check_text(PORT "/lid", "0x0\n");
  check_text(PORT "/sm_lid", "0x0\n");
  check_text(PORT "/pkeys/0", "0xffff\n");
  check_text(PORT "/gid_attrs/types/0", "RoCE v2\n");
  check_text(PORT "/gids/63", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  check_text("/sys/class/infiniband/../infiniband/./soft0//ports/1/state", "4: ACTIVE\n");
  check_text("/sys/class/infiniband_verbs/uverbs9999/ibdev", "soft0\n");
  check_text("/sys/devices/virtual/infiniband/soft0/uevent", "NAME=soft0\n");
  visit_all(PORT "/gid_attrs/types/63", &check_refused);
  visit_all(PORT "/gid_attrs/ndevs/63", &check_refused);
  visit_all("/sys/class/infiniband", &check_folder);
  visit_all(PORT "/gids", &check_folder);
  visit_all(DEVICE "/", &check_folder);
  visit_all("/dev/infiniband", &check_folder);
  visit_all(DEVICE, &check_link);
  visit_all("/dev/infiniband/uverbs9999", &check_node);
  visit_all(DEVICE "/device", &check_missing);
  visit_all(PORT "/gids/64", &check_missing);
  visit_all(PORT "/gids/01", &check_missing);
  visit_all("/sys/class/infiniband/soft1", &check_missing);
  errno = 0;
  check(open(DEVICE "/fw_ver", O_RDWR) == -1 && errno == EACCES, "open for writing", "fw_ver");
  check(fopen(DEVICE "/fw_ver", "w") == NULL && errno == EACCES, "fopen for writing", "fw_ver");
  check(chdir(PORT) == 0 && access("gids/0", R_OK) == 0, "chdir", PORT);
}

static void check_absence(void) {
  visit_all("/sys/class/infiniband/soft0", &check_missing);
  visit_all("/sys/class/infiniband_verbs/uverbs9999", &check_missing);
  visit_all("/dev/infiniband/uverbs9999", &check_missing);
  visit_all(PORT "/state", &check_missing);
  check(chdir(PORT) == -1 && errno == ENOENT, "chdir", PORT);
}

static int reads_state(void) {
  char text[32] = "";
  FILE* const file = fopen(PORT "/state", "r");
  const int good = file != NULL && fgets(text, sizeof text, file) != NULL;
  if (file != NULL) fclose(file);
  return good && strcmp(text, "4: ACTIVE\n") == 0;
}

static int lists_gids(void) {
  int count = 0;
  DIR* const folder = opendir(PORT "/gids");
  while (folder != NULL && readdir(folder) != NULL) ++count;
  if (folder != NULL) closedir(folder);
  return count == 66;  // with . and ..
}

static void* look_repeatedly(void* unused) {
  for (int i = 0; i < 20; ++i)
    if (!reads_state() || !lists_gids()) return look_repeatedly;
  return unused;
}

static void check_threads(void) {
  pthread_t threads[4];
  for (size_t i = 0; i < COUNT(threads); ++i)
    check(pthread_create(&threads[i], NULL, &look_repeatedly, NULL) == 0, "a thread", "");
  for (size_t i = 0; i < COUNT(threads); ++i) {
    void* failed = NULL;
    pthread_join(threads[i], &failed);
    check(failed == NULL, "reading in a thread", PORT);
  }
}

static int exit_status(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_fork(void) {
  check(lists_gids(), "opendir", PORT);
  const pid_t child = fork();
  if (child == 0) {
    const int good = reads_state() && lists_gids();
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(reads_state() ? 0 : 1);
    _exit(good && exit_status(grandchild) == 0 ? 0 : 1);
  }
  check(exit_status(child) == 0, "reading in a child", PORT);
  check(reads_state() && lists_gids(), "reading after the child", PORT);
}

static volatile sig_atomic_t handled;
static void look(int signal_number) {
  const int saved = errno;
  const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (other >= 0) close(other);
  const int file = open(PORT "/state", O_RDONLY | O_CLOEXEC);
  if (file >= 0) close(file);
  handled += signal_number == SIGALRM && other >= 0;
  errno = saved;
}

// The handler interrupts this thread in the forwarder, too.
static void check_signal(void) {
  struct sigaction action = {.sa_handler = &look, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerspec every = {.it_interval = {.tv_nsec = 300000},
                                   .it_value = {.tv_nsec = 300000}};
  timer_t timer;
  check(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0, "timer_create", "");
  timer_settime(timer, 0, &every, NULL);
  for (int i = 0; i < 20 || handled < 20; ++i) check(reads_state(), "reading", PORT);
  timer_delete(timer);
}

static void check_vfork(void) {
  volatile int other = -1;
  const pid_t child = vfork();  // NOLINT(bugprone-unsafe-functions): the subject of the test
  if (child == 0) {
    other = access("/dev/null", R_OK);
    if (access(PORT "/state", R_OK) == 0) other = 1;  // as without a forwarder
    _exit(0);
  }
  check(exit_status(child) == 0 && other == 0, "access in a child of vfork", "/dev/null");
  check(reads_state(), "reading after vfork", PORT);
}

// As daemons do; the numbers are used again.
static void check_closed_descriptors(void) {
  check(lists_gids(), "opendir", PORT);
  mkdir("kept", 0755);
  close(open("kept/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  for (int i = 3; i < 1024; ++i) close(i);
  for (int i = 3; i < 600; ++i) (void)open("kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const pid_t child = fork();
  if (child == 0)
    _exit(fcntl(256, F_GETFD) >= 0 && fcntl(257, F_GETFD) >= 0 && reads_state() ? 0 : 1);
  check(exit_status(child) == 0, "reading in a child with reused descriptors", PORT);
  check(reads_state() && lists_gids(), "reading with reused descriptors", PORT);
  check(access("kept/file", F_OK) == 0, "access", "kept/file");
}

static void* look_until_canceled(void* ready) {
  atomic_store((atomic_int*)ready, 1);
  for (;;) {
    reads_state();
    pthread_testcancel();
  }
  return NULL;
}

static void check_cancellation(void) {
  for (int i = 0; i < 20; ++i) {
    atomic_int ready = 0;
    pthread_t thread;
    check(pthread_create(&thread, NULL, &look_until_canceled, &ready) == 0, "a thread", "");
    while (atomic_load(&ready) == 0) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  check(reads_state(), "reading after cancellation", PORT);
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "--soft") == 0) check_soft0();
  if (strcmp(mode, "--absent") == 0) check_absence();
  if (strcmp(mode, "--threads") == 0) check_threads();
  if (strcmp(mode, "--fork") == 0) check_fork();
  if (strcmp(mode, "--signal") == 0) check_signal();
  if (strcmp(mode, "--vfork") == 0) check_vfork();
  if (strcmp(mode, "--closed") == 0) check_closed_descriptors();
  if (strcmp(mode, "--cancel") == 0) check_cancellation();
  if (strcmp(mode, "--other") == 0)
    for (int i = 2; i < argc; ++i) visit_all(argv[i], &print);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
