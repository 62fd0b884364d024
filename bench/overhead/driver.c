/* SPDX-License-Identifier: MIT
 * The main program, linked with either the C or the C++ cases:
 *   --count N   calls every case N times; callgrind counts the instructions of the case_* functions
 *   --time      prints nanoseconds per operation of every case
 *   --record    calls every case once and prints the requests that the provider receives
 * bench/harness/overhead.py reads the output lines, `name number…`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/null_provider/null_provider.h"
#include "bench/overhead/cases.h"

static uint64_t sink; /* prevents the compiler from removing the calls */

uint64_t overhead_failed(int code) { return (uint64_t)code; }

static void call(const struct overhead_case* one, struct overhead_objects* objects, long times) {
  for (long i = 0; i < times; ++i) sink += one->function(objects);
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void* left, const void* right) {
  const double a = *(const double*)left;
  const double b = *(const double*)right;
  return (a > b) - (a < b);
}

/* Returns the time of one operation in nanoseconds: the median of several chunks of calls. */
static double nanoseconds(const struct overhead_case* one, struct overhead_objects* objects) {
  enum { chunks = 21 };
  const long calls = 200000 / one->operations;
  double samples[chunks];
  call(one, objects, calls);
  for (int i = 0; i < chunks; ++i) {
    const double start = now_ns();
    call(one, objects, calls);
    samples[i] = (now_ns() - start) / (double)(calls * one->operations);
  }
  qsort(samples, chunks, sizeof samples[0], compare);
  return samples[chunks / 2];
}

static const uint64_t* region_start; /* the first posted address; records contain offsets from it */

static void print_record(const struct null_record* record, void* argument) {
  static uint64_t first;
  if (region_start == NULL) {
    first = record->sge.addr;
    region_start = &first;
  }
  printf("%s %s id=%" PRIu64 " opcode=%" PRIu32 " flags=%" PRIu32 " remote=%#" PRIx64
         " rkey=%#" PRIx32 " to=%#" PRIx32 "/%#" PRIx32 " immediate=%#" PRIx32 " operands=%#" PRIx64
         "/%#" PRIx64 " sges=%d offset=%" PRIu64 " length=%" PRIu32 " lkey=%#" PRIx32 "\n",
         *(const char**)argument, record->operation, record->wr_id, record->opcode, record->flags,
         record->remote_address, record->rkey, record->remote_qpn, record->remote_qkey,
         record->immediate, record->compare_add, record->swap, record->sge_count,
         record->sge.addr - *region_start, record->sge.length, record->sge.lkey);
}

static void record_all(struct overhead_objects* objects, const struct overhead_queues* queues) {
  const char* name = NULL;
  null_record_posts(queues->classic, print_record, &name);
  null_record_posts(queues->extended, print_record, &name);
  null_record_posts(queues->datagram, print_record, &name);
  null_record_shared_posts(queues->shared, print_record, &name);
  for (size_t i = 0; i < overhead_case_count; ++i) {
    name = overhead_cases[i].name;
    sink += overhead_cases[i].function(objects);
  }
}

static int usage(const char* program) {
  fprintf(stderr, "usage: %s --count N | --time | --record\n", program);
  return 2;
}

int main(int argc, char** argv) {
  struct overhead_queues queues = {0};
  if (argc < 2) return usage(argv[0]);
  struct overhead_objects* objects = overhead_set_up(&queues);
  if (strcmp(argv[1], "--record") == 0) {
    record_all(objects, &queues);
  } else if (strcmp(argv[1], "--time") == 0) {
    for (size_t i = 0; i < overhead_case_count; ++i)
      printf("%s %.3f\n", overhead_cases[i].name, nanoseconds(&overhead_cases[i], objects));
  } else if (strcmp(argv[1], "--count") == 0 && argc == 3 && atol(argv[2]) > 0) {
    for (size_t i = 0; i < overhead_case_count; ++i) {
      call(&overhead_cases[i], objects, atol(argv[2]));
      printf("%s %d\n", overhead_cases[i].name, overhead_cases[i].operations);
    }
  } else {
    return usage(argv[0]);
  }
  fprintf(stderr, "checksum %" PRIu64 "\n", sink);
  return 0;
}
