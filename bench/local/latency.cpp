// SPDX-License-Identifier: MIT
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>

#include "bench/local/device_modes.hpp"
#include "bench/local/measure.hpp"
#include "verbena/verbena.hpp"

namespace bench {
namespace {

// The word at the end of the message is stored last.
std::atomic_ref<std::uint64_t> last_word(std::span<std::byte> message) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(&message[message.size() - 8]));
}

// Writes the message with number `round` to the peer; every 16th is signaled, so that
// the send queue never fills.
void write_message(device_side& side, std::size_t size, std::uint64_t round) {
  last_word(side.outbox().first(size)).store(round, std::memory_order_relaxed);
  const bool signaled = round % list_length == 0;
  auto batch = side.qp().start_send();
  batch.write({.id = round, .signaled = signaled}, side.outbox_slice(0, size), side.peer());
  batch.submit().value();
  if (signaled) drain(side.sends(), 1);
}

void await_message(device_side& side, std::size_t size, std::uint64_t round) {
  const auto word = last_word(side.inbox().first(size));
  while (word.load(std::memory_order_acquire) != round) spin_hint();
}

void send_message(device_side& side, std::size_t size, std::uint64_t round) {
  const bool signaled = round % list_length == 0;
  auto batch = side.qp().start_send();
  batch.send({.id = round, .signaled = signaled}, side.outbox_slice(0, size));
  batch.submit().value();
  if (signaled) drain(side.sends(), 1);
}

// A ping-pong of SENDs. `wait` returns after a receive completed.
template <class Wait>
double send_ping_pong(const process_pair& pair, device_side& side, repetitions times,
                      std::size_t size, Wait wait) {
  post_receives(side, list_length, size);
  pair.meet();
  std::uint64_t round = 0;
  const auto receive_one = [&] {
    wait();
    post_receives(side, 1, size);
  };
  if (pair.is_child()) {
    while (round < times.total()) {
      receive_one();
      send_message(side, size, ++round);
    }
    pair.meet();
    return 0;
  }
  const double round_trip = median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      send_message(side, size, ++round);
      receive_one();
    }
  });
  pair.meet();
  return round_trip / 2;
}

}  // namespace

double send_latency(const process_pair& pair, const device_settings& of) {
  device_side side(pair, of.memory, of.size);
  return send_ping_pong(pair, side, {.chunks = 50, .per_chunk = 2000}, of.size,
                        [&] { drain(side.receives(), 1); });
}

double event_latency(const process_pair& pair, const device_settings& of) {
  device_side side(pair, of.memory, of.size);
  std::array<verbena::completion, 1> room;
  return send_ping_pong(pair, side, {.chunks = 20, .per_chunk = 200}, of.size, [&] {
    const auto until = verbena::deadline::after(std::chrono::seconds(20));
    const auto done = side.receives().wait(room, until).value();
    if (done.empty()) fail("no completion");
    done.front().result().value();
  });
}

double atomic_latency(const process_pair& pair, const device_settings& of) {
  constexpr repetitions times{.chunks = 20, .per_chunk = 200};
  device_side side(pair, of.memory, of.size);
  if (pair.is_child()) {
    pair.meet();
    pair.meet();
    std::uint64_t sum = 0;
    std::memcpy(&sum, side.inbox().data(), sizeof sum);
    if (sum != times.total()) fail("the atomic operations did not arrive");
    return 0;
  }
  pair.meet();
  const double ns = median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto batch = side.qp().start_send();
      batch.fetch_and_add({.id = i, .signaled = true}, side.outbox_slice(0, 8),
                          side.peer().slice(0, 8), 1);
      batch.submit().value();
      drain(side.sends(), 1);
    }
  });
  pair.meet();
  return ns;
}

double write_latency(const process_pair& pair, const device_settings& of) {
  constexpr repetitions times{.chunks = 50, .per_chunk = 2000};
  device_side side(pair, of.memory, of.size);
  std::uint64_t round = 0;
  if (pair.is_child()) {
    while (round < times.total()) {
      await_message(side, of.size, ++round);
      write_message(side, of.size, round);
    }
    pair.meet();
    return 0;
  }
  const double round_trip = median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      write_message(side, of.size, ++round);
      await_message(side, of.size, round);
    }
  });
  pair.meet();
  return round_trip / 2;
}

}  // namespace bench
