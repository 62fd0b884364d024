// SPDX-License-Identifier: MIT
#include <array>
#include <span>

#include "bench/local/device_modes.hpp"
#include "bench/local/measure.hpp"
#include "verbena/verbena.hpp"

namespace bench {
namespace {

// Keeps up to `lists` lists of 16 in flight, the last request of each signalled, until `count`
// messages (a multiple of 16) are complete.
template <class Add>
void stream_lists(device_side& side, std::size_t count, std::size_t lists, Add&& add) {
  std::size_t in_flight = 0;
  for (std::size_t posted = 0; posted < count; posted += list_length) {
    auto batch = side.qp().start_send();
    for (std::size_t i = 0; i < list_length; ++i)
      add(batch, verbena::send_request{.id = posted + i, .signaled = i + 1 == list_length});
    batch.submit().value();
    if (++in_flight >= lists) in_flight -= drain(side.sends(), 1);
  }
  drain(side.sends(), in_flight);
}

// The receiver replenishes its queue list by list and stays ahead of the sender's lists in flight.
void receive_stream(device_side& side, std::size_t messages, std::size_t size) {
  std::size_t used = 0;
  for (std::size_t seen = 0; seen < messages;) {
    const std::size_t now = drain(side.receives(), 1);
    seen += now;
    used += now;
    const std::size_t lists = used / list_length;
    post_receives(side, lists * list_length, size);
    used -= lists * list_length;
  }
}

constexpr std::size_t window = 8;
constexpr std::byte pattern{0x5a};

repetitions about_64_mib(std::size_t size) {
  return {.chunks = 20, .per_chunk = (std::size_t{64} << 20) / size + 1};
}

void check_slots(std::span<const std::byte> memory, std::size_t size) {
  for (std::size_t slot = 0; slot < window; ++slot)
    if (memory[(slot + 1) * size - 1] != pattern) fail("what was sent did not arrive");
}

// Bytes per second of requests that `add(batch, request, slot)` adds, eight of them in flight.
template <class Add>
double stream_bandwidth(device_side& side, std::size_t size, Add&& add) {
  std::size_t slot = 0;
  const double ns = median_ns(about_64_mib(size), [&](std::size_t count) {
    std::size_t in_flight = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto batch = side.qp().start_send();
      add(batch, verbena::send_request{.id = i, .signaled = true}, slot);
      batch.submit().value();
      slot = (slot + 1) % window;
      if (++in_flight == window) in_flight -= drain(side.sends(), 1);
    }
    drain(side.sends(), in_flight);
  });
  return static_cast<double>(size) / ns * 1e9;
}

}  // namespace

double write_rate(const process_pair& pair, const device_settings& of) {
  constexpr repetitions times{.chunks = 50, .per_chunk = 500 * list_length};
  device_side side(pair, of.memory, of.size);
  if (pair.is_child()) {
    pair.meet();
    pair.meet();
    return 0;
  }
  pair.meet();
  const auto slice = side.outbox_slice(0, of.size);
  const double ns = median_ns(times, [&](std::size_t count) {
    stream_lists(side, count, 16, [&](auto& batch, const verbena::send_request& request) {
      batch.write(request, slice, side.peer());
    });
  });
  pair.meet();
  return 1e9 / ns;
}

double send_rate(const process_pair& pair, const device_settings& of) {
  constexpr repetitions times{.chunks = 50, .per_chunk = 500 * list_length};
  device_side side(pair, of.memory, of.size);
  if (pair.is_child()) {
    post_receives(side, device_side::depth / 2, of.size);
    pair.meet();
    receive_stream(side, times.total(), of.size);
    pair.meet();
    return 0;
  }
  pair.meet();
  const auto slice = side.outbox_slice(0, of.size);
  const double ns = median_ns(times, [&](std::size_t count) {
    stream_lists(side, count, 16, [&](auto& batch, const verbena::send_request& request) {
      batch.send(request, slice);
    });
  });
  pair.meet();
  return 1e9 / ns;
}

double write_bandwidth(const process_pair& pair, const device_settings& of) {
  device_side side(pair, of.memory, window * of.size);
  if (pair.is_child()) {
    pair.meet();
    pair.meet();
    check_slots(side.inbox(), of.size);
    return 0;
  }
  std::ranges::fill(side.outbox(), pattern);
  pair.meet();
  const auto slice = side.outbox_slice(0, of.size);
  const double rate = stream_bandwidth(
      side, of.size, [&](auto& batch, const verbena::send_request& request, std::size_t slot) {
        batch.write(request, slice, side.peer().slice(slot * of.size, of.size));
      });
  pair.meet();
  return rate;
}

double read_bandwidth(const process_pair& pair, const device_settings& of) {
  device_side side(pair, of.memory, window * of.size);
  if (pair.is_child()) {
    std::ranges::fill(side.inbox(), pattern);
    pair.meet();
    pair.meet();
    return 0;
  }
  pair.meet();
  const double rate = stream_bandwidth(
      side, of.size, [&](auto& batch, const verbena::send_request& request, std::size_t slot) {
        batch.read(request, side.outbox_slice(slot * of.size, of.size),
                   side.peer().slice(slot * of.size, of.size));
      });
  check_slots(side.outbox(), of.size);
  pair.meet();
  return rate;
}

double send_bandwidth(const process_pair& pair, const device_settings& of) {
  device_side side(pair, of.memory, window * of.size);
  if (pair.is_child()) {
    std::size_t next = 0;
    const auto post_one = [&] {
      auto batch = side.qp().start_receive();
      batch.receive({}, side.inbox_slice(next * of.size, of.size));
      batch.submit().value();
      next = (next + 1) % window;
    };
    constexpr std::size_t posted = 2 * window;
    for (std::size_t i = 0; i < posted; ++i) post_one();
    pair.meet();
    for (std::size_t left = about_64_mib(of.size).total(); left > 0;) {
      const std::size_t done = drain(side.receives(), 1);
      left -= done;
      for (std::size_t i = 0; i < done; ++i) post_one();
    }
    pair.meet();
    check_slots(side.inbox(), of.size);
    return 0;
  }
  std::ranges::fill(side.outbox(), pattern);
  pair.meet();
  const auto slice = side.outbox_slice(0, of.size);
  const double rate = stream_bandwidth(
      side, of.size, [&](auto& batch, const verbena::send_request& request, std::size_t /*slot*/) {
        batch.send(request, slice);
      });
  pair.meet();
  return rate;
}

}  // namespace bench
