// SPDX-License-Identifier: MIT
// A program that opens files before the constructors of its libraries have run, and in its memory
// allocator, which the dynamic loader calls too.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);

static int opened;
static int refused;

static void look(void) {
  struct stat about;
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file < 0 || stat("/dev/null", &about) != 0 || access("/dev/null", R_OK) != 0)
    ++refused;
  else
    ++opened;
  if (file >= 0) close(file);
}

#if !defined(STATIC)
void* malloc(size_t size) {
  look();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  look();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  look();
  return __libc_realloc(memory, size);
}
static void before_constructors(int count, char** words, char** environment) {
  (void)count, (void)words, (void)environment;
  look();
}
__attribute__((section(".preinit_array"),
               used)) static void (*const first)(int, char**, char**) = &before_constructors;
#endif

int main(void) {
  void* volatile memory = malloc(100);
  free(memory);
  const int soft = access("/sys/class/infiniband/soft0/ports/1/state", R_OK) == 0;
  look();
  if (refused != 0 || opened == 0) return 1;
  puts(soft ? "soft0" : "no soft0");
  return 0;
}
