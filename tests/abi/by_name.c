// SPDX-License-Identifier: MIT
// A program that loads libibverbs with dlopen and looks up versioned functions, as libraries for
// collective operations do. Then loads a vendor's library, whose constructor calls private
// functions.
#define _GNU_SOURCE  // dlvsym
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_get_device_list

static void* library;

static void* version_of(const char* name, const char* version) {
  void* found = dlvsym(library, name, version);
  if (found == NULL) {
    fprintf(stderr, "%s@%s: %s\n", name, version, dlerror());
    exit(1);
  }
  return found;
}

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

int main(void) {
  library = dlopen("libibverbs.so.1", RTLD_NOW);
  check(library != NULL, "dlopen");
  struct ibv_device** (*get_list)(int*) = version_of("ibv_get_device_list", "IBVERBS_1.1");
  void (*free_list)(struct ibv_device**) = version_of("ibv_free_device_list", "IBVERBS_1.1");
  const char* (*get_name)(struct ibv_device*) = version_of("ibv_get_device_name", "IBVERBS_1.1");
  struct ibv_context* (*open_device)(struct ibv_device*) =
      version_of("ibv_open_device", "IBVERBS_1.1");
  int (*close_device)(struct ibv_context*) = version_of("ibv_close_device", "IBVERBS_1.1");
  int (*query_gid)(struct ibv_context*, uint8_t, int, union ibv_gid*) =
      version_of("ibv_query_gid", "IBVERBS_1.1");
  struct ibv_pd* (*alloc_pd)(struct ibv_context*) = version_of("ibv_alloc_pd", "IBVERBS_1.1");
  int (*dealloc_pd)(struct ibv_pd*) = version_of("ibv_dealloc_pd", "IBVERBS_1.1");
  struct ibv_mr* (*reg_mr)(struct ibv_pd*, void*, size_t, uint64_t, unsigned int) =
      version_of("ibv_reg_mr_iova2", "IBVERBS_1.8");
  int (*dereg_mr)(struct ibv_mr*) = version_of("ibv_dereg_mr", "IBVERBS_1.1");
  check(dlsym(library, "ibv_get_device_list") == (void*)get_list, "comparing dlsym and dlvsym");
  check(version_of("ibv_get_device_list", "IBVERBS_1.0") != (void*)get_list,
        "finding the old version");

  struct ibv_device** list = get_list(NULL);
  check(list != NULL && list[0] != NULL, "ibv_get_device_list");
  struct ibv_device* device = list[0];
  for (struct ibv_device** each = list; *each; ++each)
    if (strcmp(get_name(*each), "soft0") == 0) device = *each;
  printf("%s\n", get_name(device));
  struct ibv_context* context = open_device(device);
  check(context != NULL, "ibv_open_device");
  union ibv_gid gid;
  check(query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
  struct ibv_pd* pd = alloc_pd(context);
  check(pd != NULL, "ibv_alloc_pd");
  static char memory[4096];
  struct ibv_mr* mr = reg_mr(pd, memory, sizeof memory, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
  check(mr != NULL, "ibv_reg_mr_iova2");

  void* vendor = dlopen("libmlx5.so.1", RTLD_NOW);
  check(vendor != NULL, "dlopen of libmlx5.so.1");
  bool (*is_supported)(struct ibv_device*) = 0;
  *(void**)&is_supported = dlsym(vendor, "mlx5dv_is_supported");
  check(is_supported != NULL, "dlsym");
  check(!is_supported(device), "mlx5dv_is_supported");

  check(dereg_mr(mr) == 0, "ibv_dereg_mr");
  check(dealloc_pd(pd) == 0, "ibv_dealloc_pd");
  check(close_device(context) == 0, "ibv_close_device");
  free_list(list);
  return 0;
}
