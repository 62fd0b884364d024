// SPDX-License-Identifier: MIT
// The measurements of local_device. Each runs in both processes; the parent's result is the number,
// after the received bytes were checked.
#pragma once

#include <array>
#include <cstddef>

#include "bench/local/device_side.hpp"
#include "bench/local/process_pair.hpp"

namespace bench {

inline constexpr std::size_t list_length = 16;

struct device_settings {
  memory_kind memory;
  std::size_t size;
};

// One-way nanoseconds of a message.
double write_latency(const process_pair& pair, const device_settings& of);
double send_latency(const process_pair& pair, const device_settings& of);
// One-way nanoseconds if each side sleeps on its completion channel.
double event_latency(const process_pair& pair, const device_settings& of);
// Nanoseconds from post to completion; the owner of the memory does not call the device.
double atomic_latency(const process_pair& pair, const device_settings& of);

// Messages per second, posted in lists of 16.
double write_rate(const process_pair& pair, const device_settings& of);
double send_rate(const process_pair& pair, const device_settings& of);

// Bytes per second, eight messages in flight.
double write_bandwidth(const process_pair& pair, const device_settings& of);
double read_bandwidth(const process_pair& pair, const device_settings& of);
double send_bandwidth(const process_pair& pair, const device_settings& of);

// Nanoseconds from the creation of a queue pair until it has received the first message, between
// processes that have been connected before.
double connection(const process_pair& pair, const device_settings& of);

// Nanoseconds of a registration and deregistration of `size` bytes.
double registration(const process_pair& pair, const device_settings& of);

/// Polls until `wanted` completions have been received, and returns their number. A failed request
/// ends the program.
inline std::size_t drain(const verbena::completion_queue& from, std::size_t wanted) {
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

/// Posts receives of `size` bytes, in lists of 16. All use the beginning of the inbox.
inline void post_receives(device_side& side, std::size_t count, std::size_t size) {
  while (count > 0) {
    auto batch = side.qp().start_receive();
    const std::size_t now = count < list_length ? count : list_length;
    for (std::size_t i = 0; i < now; ++i) batch.receive({}, side.inbox_slice(0, size));
    batch.submit().value();
    count -= now;
  }
}

}  // namespace bench
