/* SPDX-License-Identifier: MIT
 * The measured functions. Each case has two implementations with one name: idiomatic C in twin*.c,
 * and public functions of the library in typed*.cpp. One call posts or polls `operations` requests
 * and returns a number that depends on the result, so that the compiler keeps the code. A failed
 * post calls overhead_failed(). Cases whose name starts with poster_ or single_ exist only in C++.
 * They are compared with the C case whose name has no prefix.
 *
 * Suffixes: _1 posts one request, _2 posts two requests separately, _16 posts one list of 16
 * requests, _loop posts 16 requests separately. _span posts scatter/gather elements in place,
 * without a copy. _ex uses ibv_wr_*. All datagrams have one destination. lazy_poll reads ID and
 * length of each completion of an extended completion queue. lazy_fields reads ID, operation and
 * flags of each successful one, and the vendor error of each failed one.
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

/* single_NAME posts the requests of NAME with functions that post one request, without a batch. */
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

/* The verbs objects of the cases. The C program and the C++ program define the structure. */
struct overhead_objects;

typedef uint64_t overhead_function(struct overhead_objects* objects);

struct overhead_case {
  const char* name;
  int operations;
  overhead_function* function;
};

/* The cases of the program: either the C or the C++ cases. */
extern const struct overhead_case overhead_cases[];
extern const size_t overhead_case_count;
struct ibv_qp;
struct ibv_srq;
/* The queues for posting. */
struct overhead_queues {
  struct ibv_qp* classic;
  struct ibv_qp* extended;
  struct ibv_qp* datagram; /* supports both interfaces */
  struct ibv_srq* shared;
};
/* Creates the objects on the null provider. Stores the queues in `queues`, so that the driver can
 * record posts. */
struct overhead_objects* overhead_set_up(struct overhead_queues* queues);

/* Request i of a list uses slot i of a region: 64 bytes. The slots are contiguous. */
enum { overhead_slot_bytes = 64, overhead_slots = 16 };
/* The destination of the datagrams, and the immediate data. */
enum {
  overhead_remote_number = 0x123456,
  overhead_remote_qkey = 0x11112222,
  overhead_immediate = 0x01020304
};
#define OVERHEAD_REMOTE_ADDRESS UINT64_C(0x7f0000001000)
/* The identifier of the first request of a call. */
#define OVERHEAD_FIRST_ID UINT64_C(7)

/* Called by the C and the C++ cases if a post fails. */
uint64_t overhead_failed(int code);

#define OVERHEAD_DECLARE(name, operations) overhead_function case_##name;
OVERHEAD_CASES(OVERHEAD_DECLARE)
OVERHEAD_POSTER_CASES(OVERHEAD_DECLARE)
OVERHEAD_SINGLE_CASES(OVERHEAD_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
