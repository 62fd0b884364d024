// SPDX-License-Identifier: MIT
// The software device between two processes. `local_device MODE shareable|ordinary SIZE`:
//   write_latency, send_latency      one-way nanoseconds of a message
//   write_rate, send_rate            messages per second, posted in lists of 16
//   write_bandwidth                  bytes per second, eight messages in flight
// Prints one number, after the peer has checked the received bytes.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string_view>

#include "bench/local/device_side.hpp"
#include "bench/local/measure.hpp"

namespace {

using bench::device_side;
using bench::fail;
using bench::memory_kind;
using bench::process_pair;
using bench::repetitions;

constexpr std::size_t list_length = 16;

struct settings {
  memory_kind memory;
  std::size_t size;
};

// Polls until `wanted` completions have been received, and returns their number. A failed request
// ends the program.
std::size_t drain(const verbena::completion_queue& from, std::size_t wanted) {
  std::array<verbena::completion, 64> completions;
  std::size_t seen = 0;
  do {
    for (const auto& done : from.poll(completions).value()) {
      done.result().value();
      ++seen;
    }
  } while (seen < wanted);
  return seen;
}

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
  while (word.load(std::memory_order_acquire) != round) bench::spin_hint();
}

double write_latency(const process_pair& pair, const settings& of) {
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
  const double round_trip = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      write_message(side, of.size, ++round);
      await_message(side, of.size, round);
    }
  });
  pair.meet();
  return round_trip / 2;
}

void post_receives(device_side& side, std::size_t count, std::size_t size) {
  while (count > 0) {
    auto batch = side.qp().start_receive();
    const std::size_t now = std::min(count, list_length);
    for (std::size_t i = 0; i < now; ++i) batch.receive({}, side.inbox_slice(0, size));
    batch.submit().value();
    count -= now;
  }
}

void send_message(device_side& side, std::size_t size, std::uint64_t round) {
  const bool signaled = round % list_length == 0;
  auto batch = side.qp().start_send();
  batch.send({.id = round, .signaled = signaled}, side.outbox_slice(0, size));
  batch.submit().value();
  if (signaled) drain(side.sends(), 1);
}

double send_latency(const process_pair& pair, const settings& of) {
  constexpr repetitions times{.chunks = 50, .per_chunk = 2000};
  device_side side(pair, of.memory, of.size);
  post_receives(side, list_length, of.size);
  pair.meet();
  std::uint64_t round = 0;
  const auto receive_one = [&] {
    drain(side.receives(), 1);
    post_receives(side, 1, of.size);
  };
  if (pair.is_child()) {
    while (round < times.total()) {
      receive_one();
      send_message(side, of.size, ++round);
    }
    pair.meet();
    return 0;
  }
  const double round_trip = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      send_message(side, of.size, ++round);
      receive_one();
    }
  });
  pair.meet();
  return round_trip / 2;
}

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

double write_rate(const process_pair& pair, const settings& of) {
  constexpr repetitions times{.chunks = 50, .per_chunk = 500 * list_length};
  device_side side(pair, of.memory, of.size);
  if (pair.is_child()) {
    pair.meet();
    pair.meet();
    return 0;
  }
  pair.meet();
  const auto slice = side.outbox_slice(0, of.size);
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    stream_lists(side, count, 16, [&](auto& batch, const verbena::send_request& request) {
      batch.write(request, slice, side.peer());
    });
  });
  pair.meet();
  return 1e9 / ns;
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

double send_rate(const process_pair& pair, const settings& of) {
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
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    stream_lists(side, count, 16, [&](auto& batch, const verbena::send_request& request) {
      batch.send(request, slice);
    });
  });
  pair.meet();
  return 1e9 / ns;
}

double write_bandwidth(const process_pair& pair, const settings& of) {
  constexpr std::size_t window = 8;
  const repetitions times{.chunks = 20, .per_chunk = (std::size_t{64} << 20) / of.size + 1};
  device_side side(pair, of.memory, window * of.size);
  if (pair.is_child()) {
    pair.meet();
    pair.meet();
    for (std::size_t slot = 0; slot < window; ++slot)
      if (side.inbox()[(slot + 1) * of.size - 1] != std::byte{0x5a})
        fail("what was written did not arrive");
    return 0;
  }
  std::ranges::fill(side.outbox(), std::byte{0x5a});
  pair.meet();
  const auto slice = side.outbox_slice(0, of.size);
  std::size_t slot = 0;
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    std::size_t in_flight = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto batch = side.qp().start_send();
      batch.write({.id = i, .signaled = true}, slice, side.peer().slice(slot * of.size, of.size));
      batch.submit().value();
      slot = (slot + 1) % window;
      if (++in_flight == window) in_flight -= drain(side.sends(), 1);
    }
    drain(side.sends(), in_flight);
  });
  pair.meet();
  return static_cast<double>(of.size) / ns * 1e9;
}

using mode_function = double(const process_pair&, const settings&);

mode_function* mode_called(std::string_view name) {
  if (name == "write_latency") return write_latency;
  if (name == "send_latency") return send_latency;
  if (name == "write_rate") return write_rate;
  if (name == "send_rate") return send_rate;
  if (name == "write_bandwidth") return write_bandwidth;
  return nullptr;
}

int usage() {
  std::fputs(
      "usage: local_device write_latency|send_latency|write_rate|send_rate|write_bandwidth\n"
      "                    shareable|ordinary SIZE (8 to 16777216, a multiple of 8)\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return usage();
  mode_function* const mode = mode_called(argv[1]);
  const std::string_view kind = argv[2];
  const std::size_t size = std::strtoul(argv[3], nullptr, 10);
  const bool size_ok = size >= 8 && size <= (std::size_t{1} << 24) && size % 8 == 0;
  if (mode == nullptr || (kind != "shareable" && kind != "ordinary") || !size_ok) return usage();
  const auto pair = process_pair::start();
  try {
    const double number =
        mode(pair, {kind == "shareable" ? memory_kind::shareable : memory_kind::ordinary, size});
    if (pair.is_parent()) std::printf("%.3f\n", number);
  } catch (const std::exception& problem) {
    fail(problem.what());
  }
  return pair.finish();
}
