// SPDX-License-Identifier: MIT
// More cases with public functions of the library: one request and one batch of 16 requests,
// through both interfaces.
#include "bench/overhead/typed.hpp"

#define CASE(name) [[gnu::noinline]] std::uint64_t case_##name(overhead_objects* objects)

namespace {

verbena::send_request request(unsigned i) {
  return {.id = OVERHEAD_FIRST_ID + i, .signaled = true};
}

struct send_immediate {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.send_with_immediate(request(i), overhead_immediate, objects.local[i]);
  }
};
struct write_immediate {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.write_with_immediate(request(i), overhead_immediate, objects.local[i], objects.remote[i]);
  }
};
struct remote_read {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.read(request(i), objects.local[i], objects.remote[i]);
  }
};
struct compare_swap {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.compare_and_swap(request(i), objects.words[i], objects.remote[i],
                           {.expected = 5, .desired = 6});
  }
};
struct fetch_add {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.fetch_and_add(request(i), objects.words[i], objects.remote[i], i);
  }
};
struct inline_bytes {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.send(request(i), objects.inlined[i]);
  }
};
struct datagram_immediate {
  template <class Batch>
  static void add(Batch& batch, const overhead_objects& objects, unsigned i) {
    batch.send_with_immediate(request(i), overhead_immediate, objects.local[i], objects.to);
  }
};

template <class Operation, class Queue>
[[gnu::always_inline]] inline std::uint64_t one(Queue& queue, const overhead_objects& objects) {
  auto batch = queue.start_send();
  Operation::add(batch, objects, 0);
  return outcome_of(batch.submit());
}

template <class Operation, class Queue>
[[gnu::always_inline]] inline std::uint64_t sixteen(Queue& queue, const overhead_objects& objects) {
  auto batch = queue.start_send();
  for (unsigned i = 0; i < overhead_slots; ++i) Operation::add(batch, objects, i);
  return outcome_of(batch.submit());
}

}  // namespace

#define POSTED_CASES(name, operation, queue, extended_queue)                      \
  CASE(name##_1) { return one<operation>(objects->queue, *objects); }             \
  CASE(name##_16) { return sixteen<operation>(objects->queue, *objects); }        \
  CASE(name##_1_ex) { return one<operation>(objects->extended_queue, *objects); } \
  CASE(name##_16_ex) { return sixteen<operation>(objects->extended_queue, *objects); }

POSTED_CASES(send_immediate, send_immediate, qp, extended)
POSTED_CASES(write_immediate, write_immediate, qp, extended)
POSTED_CASES(read, remote_read, qp, extended)
POSTED_CASES(compare_swap, compare_swap, qp, extended)
POSTED_CASES(fetch_add, fetch_add, qp, extended)
POSTED_CASES(inline, inline_bytes, qp, extended)
POSTED_CASES(datagram_immediate, datagram_immediate, datagrams, datagrams_extended)

CASE(single_send_1) { return outcome_of(objects->qp.post_send(request(0), objects->local[0])); }
CASE(single_send_immediate_1) {
  return outcome_of(
      objects->qp.post_send_with_immediate(request(0), overhead_immediate, objects->local[0]));
}
CASE(single_write_1) {
  return outcome_of(objects->qp.post_write(request(0), objects->local[0], objects->remote[0]));
}
CASE(single_write_immediate_1) {
  return outcome_of(objects->qp.post_write_with_immediate(request(0), overhead_immediate,
                                                          objects->local[0], objects->remote[0]));
}
CASE(single_read_1) {
  return outcome_of(objects->qp.post_read(request(0), objects->local[0], objects->remote[0]));
}
CASE(single_compare_swap_1) {
  return outcome_of(objects->qp.post_compare_and_swap(
      request(0), objects->words[0], objects->remote[0], {.expected = 5, .desired = 6}));
}
CASE(single_fetch_add_1) {
  return outcome_of(
      objects->qp.post_fetch_and_add(request(0), objects->words[0], objects->remote[0], 0));
}
CASE(single_inline_1) { return outcome_of(objects->qp.post_send(request(0), objects->inlined[0])); }
CASE(single_datagram_1) {
  return outcome_of(objects->datagrams.post_send(request(0), objects->local[0], objects->to));
}
CASE(single_datagram_immediate_1) {
  return outcome_of(objects->datagrams.post_send_with_immediate(request(0), overhead_immediate,
                                                                objects->local[0], objects->to));
}
CASE(single_write_loop) {
  std::uint64_t codes = 0;
  for (unsigned i = 0; i < overhead_slots; ++i)
    codes |= outcome_of(objects->qp.post_write(request(i), objects->local[i], objects->remote[i]));
  return codes;
}
CASE(single_write_1_ex) {
  return outcome_of(
      objects->extended.post_write(request(0), objects->local[0], objects->remote[0]));
}
CASE(single_write_loop_ex) {
  auto queue = objects->extended;  // a view, like the pointer of the C case
  std::uint64_t codes = 0;
  for (unsigned i = 0; i < overhead_slots; ++i)
    codes |= outcome_of(queue.post_write(request(i), objects->local[i], objects->remote[i]));
  return codes;
}

CASE(lazy_fields_16) {
  std::uint64_t sum = 0;
  auto pass = objects->lazy_cq.poll();
  for (const auto& done : pass) {
    if (!done.ok()) {
      sum += done.vendor_error();
      continue;
    }
    sum += done.id() + static_cast<std::uint64_t>(done.opcode());
    if (done.flags().contains(verbena::completion_flag::with_immediate)) sum += done.byte_length();
  }
  return pass.result() ? sum : UINT64_MAX;
}
