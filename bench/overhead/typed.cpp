// SPDX-License-Identifier: MIT
// The cases with public functions of the library. typed_setup.cpp creates the objects: a separate
// translation unit prevents the compiler from optimising the cases for particular objects.
#include "bench/overhead/typed.hpp"

#include <span>

#define CASE(name) [[gnu::noinline]] std::uint64_t case_##name(overhead_objects* objects)

namespace {

// The bodies of the cases. `Queue` is a queue pair, an extended queue or a poster.
template <class Queue>
[[gnu::always_inline]] inline std::uint64_t write_one(Queue& queue, const overhead_objects& objects,
                                                      unsigned slot = 0) {
  auto batch = queue.start_send();
  batch.write({.id = OVERHEAD_FIRST_ID + slot, .signaled = true}, objects.local[slot],
              objects.remote[slot]);
  return outcome_of(batch.submit());
}

template <class Queue>
[[gnu::always_inline]] inline std::uint64_t write_sixteen(Queue& queue,
                                                          const overhead_objects& objects) {
  auto batch = queue.start_send();
  for (unsigned i = 0; i < overhead_slots; ++i)
    batch.write({.id = OVERHEAD_FIRST_ID + i, .signaled = true}, objects.local[i],
                objects.remote[i]);
  return outcome_of(batch.submit());
}

template <class Queue>
[[gnu::always_inline]] inline std::uint64_t write_loop(Queue& queue,
                                                       const overhead_objects& objects) {
  std::uint64_t codes = 0;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    auto batch = queue.start_send();
    batch.write({.id = OVERHEAD_FIRST_ID + i, .signaled = true}, objects.local[i],
                objects.remote[i]);
    codes |= outcome_of(batch.submit());
  }
  return codes;
}

template <class Queue>
[[gnu::always_inline]] inline std::uint64_t send_one(Queue& queue,
                                                     const overhead_objects& objects) {
  auto batch = queue.start_send();
  batch.send({.id = OVERHEAD_FIRST_ID, .signaled = true}, objects.local[0]);
  return outcome_of(batch.submit());
}

template <class Queue>
[[gnu::always_inline]] inline std::uint64_t send_sixteen(Queue& queue,
                                                         const overhead_objects& objects) {
  auto batch = queue.start_send();
  for (unsigned i = 0; i < overhead_slots; ++i)
    batch.send({.id = OVERHEAD_FIRST_ID + i, .signaled = true}, objects.local[i]);
  return outcome_of(batch.submit());
}

template <class Queue>
[[gnu::always_inline]] inline std::uint64_t datagram_one(Queue& queue,
                                                         const overhead_objects& objects) {
  auto batch = queue.start_send();
  batch.send({.id = OVERHEAD_FIRST_ID, .signaled = true}, objects.local[0], objects.to);
  return outcome_of(batch.submit());
}

template <class Queue>
[[gnu::always_inline]] inline std::uint64_t datagram_sixteen(Queue& queue,
                                                             const overhead_objects& objects) {
  auto batch = queue.start_send();
  for (unsigned i = 0; i < overhead_slots; ++i)
    batch.send({.id = OVERHEAD_FIRST_ID + i, .signaled = true}, objects.local[i], objects.to);
  return outcome_of(batch.submit());
}

}  // namespace

CASE(write_1) { return write_one(objects->qp, *objects); }
CASE(write_16) { return write_sixteen(objects->qp, *objects); }
CASE(write_2) {
  std::uint64_t codes = write_one(objects->qp, *objects, 0);
  codes |= write_one(objects->qp, *objects, 1);
  return codes;
}
CASE(write_2_ex) {
  std::uint64_t codes = write_one(objects->extended, *objects, 0);
  codes |= write_one(objects->extended, *objects, 1);
  return codes;
}
CASE(write_loop) { return write_loop(objects->qp, *objects); }
CASE(write_loop_ex) {
  auto queue = objects->extended;  // a view, like the pointer of the C case
  return write_loop(queue, *objects);
}

CASE(write_1_span) {
  auto batch = objects->qp.start_send();
  batch.write({.id = OVERHEAD_FIRST_ID, .signaled = true}, std::span(&objects->local[0], 1),
              objects->remote[0]);
  return outcome_of(batch.submit());
}

CASE(write_16_span) {
  auto batch = objects->qp.start_send();
  for (unsigned i = 0; i < overhead_slots; ++i)
    batch.write({.id = OVERHEAD_FIRST_ID + i, .signaled = true}, std::span(&objects->local[i], 1),
                objects->remote[i]);
  return outcome_of(batch.submit());
}

CASE(send_1) { return send_one(objects->qp, *objects); }
CASE(send_16) { return send_sixteen(objects->qp, *objects); }
CASE(write_1_ex) { return write_one(objects->extended, *objects); }
CASE(write_16_ex) { return write_sixteen(objects->extended, *objects); }
CASE(send_1_ex) { return send_one(objects->extended, *objects); }
CASE(send_16_ex) { return send_sixteen(objects->extended, *objects); }

CASE(datagram_1) { return datagram_one(objects->datagrams, *objects); }
CASE(datagram_16) { return datagram_sixteen(objects->datagrams, *objects); }
CASE(datagram_1_ex) { return datagram_one(objects->datagrams_extended, *objects); }
CASE(datagram_16_ex) { return datagram_sixteen(objects->datagrams_extended, *objects); }

CASE(shared_receive_1) {
  return outcome_of(objects->shared.post_receive({.id = OVERHEAD_FIRST_ID}, objects->local[0]));
}
CASE(shared_receive_16) {
  auto batch = objects->shared.start_receive();
  for (unsigned i = 0; i < overhead_slots; ++i)
    batch.receive({.id = OVERHEAD_FIRST_ID + i}, objects->local[i]);
  return outcome_of(batch.submit());
}

CASE(receive_1) {
  return outcome_of(objects->qp.post_receive({.id = OVERHEAD_FIRST_ID}, objects->local[0]));
}

CASE(receive_16) {
  auto batch = objects->qp.start_receive();
  for (unsigned i = 0; i < overhead_slots; ++i)
    batch.receive({.id = OVERHEAD_FIRST_ID + i}, objects->local[i]);
  return outcome_of(batch.submit());
}

CASE(poll_1) {
  verbena::completion done;
  const auto polled = objects->cq.poll(std::span(&done, 1));
  if (!polled) return UINT64_MAX;
  if ((*polled).empty()) return 0;
  if (!done.ok()) return UINT64_MAX;
  return done.id() + done.byte_length();
}

CASE(poll_16) {
  std::array<verbena::completion, overhead_slots> completions;
  std::uint64_t sum = 0;
  const auto polled = objects->cq.poll(completions);
  if (!polled) return UINT64_MAX;
  for (const auto& done : *polled) {
    if (!done.ok()) return UINT64_MAX;
    sum += done.id() + done.byte_length();
  }
  return sum;
}

CASE(lazy_poll_16) {
  std::uint64_t sum = 0;
  auto pass = objects->lazy_cq.poll();
  for (const auto& done : pass)
    if (done.ok()) sum += done.id() + done.byte_length();
  return pass.result() ? sum : UINT64_MAX;
}

// with_poster() selects the interface at run time, once per call. The C case uses the interface
// that with_poster() selects.
CASE(poster_write_1) {
  return objects->qp.with_poster([&](auto& poster) { return write_one(poster, *objects); });
}
CASE(poster_write_16) {
  return objects->qp.with_poster([&](auto& poster) { return write_sixteen(poster, *objects); });
}
// Two calls of with_poster(), to measure the cost of one more call.
CASE(poster_write_2) {
  std::uint64_t codes =
      objects->qp.with_poster([&](auto& poster) { return write_one(poster, *objects, 0); });
  codes |= objects->qp.with_poster([&](auto& poster) { return write_one(poster, *objects, 1); });
  return codes;
}
CASE(poster_write_2_ex) {
  auto& qp = objects->qp_with_extended;
  std::uint64_t codes =
      qp.with_poster([&](auto& poster) { return write_one(poster, *objects, 0); });
  codes |= qp.with_poster([&](auto& poster) { return write_one(poster, *objects, 1); });
  return codes;
}
CASE(poster_write_loop) {
  return objects->qp.with_poster([&](auto& poster) { return write_loop(poster, *objects); });
}
CASE(poster_write_loop_ex) {
  return objects->qp_with_extended.with_poster(
      [&](auto& poster) { return write_loop(poster, *objects); });
}
CASE(poster_write_1_ex) {
  return objects->qp_with_extended.with_poster(
      [&](auto& poster) { return write_one(poster, *objects); });
}
CASE(poster_write_16_ex) {
  return objects->qp_with_extended.with_poster(
      [&](auto& poster) { return write_sixteen(poster, *objects); });
}
