/* SPDX-License-Identifier: MIT
 * The measured functions. Each exists twice under the same name: in twin.c as a C programmer writes
 * it, in typed.cpp with this library's public functions. One call posts or polls `operations` times
 * and returns a number that depends on the outcome: a refused post is handled elsewhere. Cases
 * whose name starts with poster_ or single_ exist only in C++; their twin is the case without the
 * prefix.
 *
 * _1 is one request, _2 two that are posted one by one, _16 one list of sixteen, _loop one request
 * posted sixteen times; _span names slices where they lie instead of copying them; _ex goes
 * through ibv_wr_*. Datagrams are all addressed to one queue pair. lazy_fields reads what the
 * device is asked for with each field.
 */
#ifndef BENCH_OVERHEAD_CASES_H
#define BENCH_OVERHEAD_CASES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OVERHEAD_POSTED(X, name) \
  X(name##_1, 1) X(name##_16, 16) X(name##_1_ex, 1) X(name##_16_ex, 16)

/* X(name, operations) */
#define OVERHEAD_CASES(X)             \
  X(write_1, 1)                       \
  X(write_16, 16)                     \
  X(write_2, 2)                       \
  X(write_loop, 16)                   \
  X(write_1_span, 1)                  \
  X(write_16_span, 16)                \
  X(send_1, 1)                        \
  X(send_16, 16)                      \
  X(write_1_ex, 1)                    \
  X(write_16_ex, 16)                  \
  X(write_2_ex, 2)                    \
  X(write_loop_ex, 16)                \
  X(send_1_ex, 1)                     \
  X(send_16_ex, 16)                   \
  X(datagram_1, 1)                    \
  X(datagram_16, 16)                  \
  X(datagram_1_ex, 1)                 \
  X(datagram_16_ex, 16)               \
  X(receive_1, 1)                     \
  X(receive_16, 16)                   \
  X(shared_receive_1, 1)              \
  X(shared_receive_16, 16)            \
  X(poll_1, 1)                        \
  X(poll_16, 16)                      \
  X(lazy_poll_16, 16)                 \
  X(lazy_fields_16, 16)               \
  OVERHEAD_POSTED(X, send_immediate)  \
  OVERHEAD_POSTED(X, write_immediate) \
  OVERHEAD_POSTED(X, read)            \
  OVERHEAD_POSTED(X, compare_swap)    \
  OVERHEAD_POSTED(X, fetch_add)       \
  OVERHEAD_POSTED(X, inline)          \
  OVERHEAD_POSTED(X, datagram_immediate)

#define OVERHEAD_POSTER_CASES(X) \
  X(poster_write_1, 1)           \
  X(poster_write_16, 16)         \
  X(poster_write_2, 2)           \
  X(poster_write_loop, 16)       \
  X(poster_write_1_ex, 1)        \
  X(poster_write_16_ex, 16)      \
  X(poster_write_2_ex, 2)        \
  X(poster_write_loop_ex, 16)

/* One request, posted by a function of its own: single_NAME does what NAME does. */
#define OVERHEAD_SINGLE_CASES(X)    \
  X(single_send_1, 1)               \
  X(single_send_immediate_1, 1)     \
  X(single_write_1, 1)              \
  X(single_write_immediate_1, 1)    \
  X(single_read_1, 1)               \
  X(single_compare_swap_1, 1)       \
  X(single_fetch_add_1, 1)          \
  X(single_inline_1, 1)             \
  X(single_datagram_1, 1)           \
  X(single_datagram_immediate_1, 1) \
  X(single_write_loop, 16)          \
  X(single_write_1_ex, 1)           \
  X(single_write_loop_ex, 16)

/* The objects of a case. Each side has its own definition. */
struct overhead_objects;

typedef uint64_t overhead_function(struct overhead_objects* objects);

struct overhead_case {
  const char* name;
  int operations;
  overhead_function* function;
};

/* Of the side that is linked into the program. */
extern const struct overhead_case overhead_cases[];
extern const size_t overhead_case_count;
struct ibv_qp;
struct ibv_srq;
/* The queues for posting. */
struct overhead_queues {
  struct ibv_qp* classic;
  struct ibv_qp* extended;
  struct ibv_qp* datagram; /* has both interfaces */
  struct ibv_srq* shared;
};
/* Makes the objects on the null provider and hands out the queues, so that posts can be recorded.
 */
struct overhead_objects* overhead_set_up(struct overhead_queues* queues);

/* The request that both sides post: 64 bytes at slot i of a region. Slots follow each other. */
enum { overhead_slot_bytes = 64, overhead_slots = 16 };
/* Where datagrams go, and the number that comes with some messages. */
enum {
  overhead_remote_number = 0x123456,
  overhead_remote_qkey = 0x11112222,
  overhead_immediate = 0x01020304
};
#define OVERHEAD_REMOTE_ADDRESS UINT64_C(0x7f0000001000)
/* The identifier of the first request of a call. */
#define OVERHEAD_FIRST_ID UINT64_C(7)

/* Handles a refused post, for both sides. */
uint64_t overhead_failed(int code);

#define OVERHEAD_DECLARE(name, operations) overhead_function case_##name;
OVERHEAD_CASES(OVERHEAD_DECLARE)
OVERHEAD_POSTER_CASES(OVERHEAD_DECLARE)
OVERHEAD_SINGLE_CASES(OVERHEAD_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
