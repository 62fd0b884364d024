// SPDX-License-Identifier: MIT
// Lists the devices twice with the libibverbs of the process and with each library that is named.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#undef ibv_get_device_list

typedef struct ibv_device** get_function(int*);
typedef void free_function(struct ibv_device**);

static int list_twice(void* library, const char* name) {
  get_function* const get = (get_function*)dlsym(library, "ibv_get_device_list");
  free_function* const release = (free_function*)dlsym(library, "ibv_free_device_list");
  if (get == NULL || release == NULL) {
    fprintf(stderr, "%s has no device list\n", name);
    return 1;
  }
  for (int i = 0; i < 2; ++i) {
    struct ibv_device** const list = get(NULL);
    if (list != NULL) release(list);
  }
  return 0;
}

int main(int argc, char** argv) {
  int failed = list_twice(RTLD_DEFAULT, "the process");
  for (int i = 1; i < argc; ++i) {
    void* const library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    failed |= library == NULL || list_twice(library, argv[i]);
  }
  return failed;
}
