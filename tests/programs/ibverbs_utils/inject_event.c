// SPDX-License-Identifier: MIT
// A library to preload into a program that waits for asynchronous events. Before the first wait, it
// injects the faults in PROVOKE (commands separated by semicolons). After the program has received
// one event per command, the next wait fails, which ends the program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int inject_event(struct ibv_context* context) {
  int (*function)(struct ibv_context*, const char*);
  *(void**)&function = dlsym(RTLD_DEFAULT, "verbena_soft_inject_event");
  char* commands = strdup(getenv("PROVOKE"));
  int count = 0;
  char* rest = NULL;
  for (char* one = strtok_r(commands, ";", &rest); one != NULL; one = strtok_r(NULL, ";", &rest)) {
    const int failed = function != NULL ? function(context, one) : ENOSYS;
    if (failed != 0) printf("%s: %s\n", one, strerror(failed));
    ++count;
  }
  free(commands);
  return count;
}

int ibv_get_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  static int left = -1;
  int (*next)(struct ibv_context*, struct ibv_async_event*);
  *(void**)&next = dlsym(RTLD_NEXT, "ibv_get_async_event");
  if (left < 0) left = inject_event(context);
  if (left-- == 0 || next == NULL) return -1;
  return next(context, event);
}
