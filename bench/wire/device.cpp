// SPDX-License-Identifier: MIT
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "bench/local/device_modes.hpp"
#include "bench/local/measure.hpp"
#include "bench/scale/scale_modes.hpp"
#include "bench/wire/wire_modes.hpp"
#include "verbena/verbena.hpp"

namespace bench {
namespace {

constexpr std::size_t message = std::size_t{64} << 10;
constexpr std::size_t messages_in_flight = 8;
constexpr std::size_t senders = 8;
constexpr std::byte pattern{0x5a};

// The first receive ends the run. Until then the receiver polls, and so takes packets.
void receive_until_end(device_side& side) {
  post_receives(side, 1, 8);
  drain(side.receives(), 1);
}

void send_end(device_side& side) {
  auto batch = side.qp().start_send();
  batch.send({.signaled = true}, side.outbox_slice(0, 8));
  batch.submit().value();
  drain(side.sends(), 1);
}

// Writes messages until `seconds` are over, and waits for their completions. Returns the number of
// bytes.
std::uint64_t stream_writes(device_side& side, double seconds) {
  const auto slice = side.outbox_slice(0, message);
  std::uint64_t bytes = 0;
  std::size_t in_flight = 0;
  std::size_t slot = 0;
  for (const auto start = now(); seconds_since(start) < seconds; bytes += message) {
    auto batch = side.qp().start_send();
    batch.write({.signaled = true}, slice, side.peer().slice(slot * message, message));
    batch.submit().value();
    slot = (slot + 1) % messages_in_flight;
    if (++in_flight == messages_in_flight) in_flight -= drain(side.sends(), 1);
  }
  if (in_flight > 0) drain(side.sends(), in_flight);
  return bytes;
}

// The rates of all senders are equal if the index is 1; 1 / n if one of n sends everything.
double jain_index(std::span<const double> rates) {
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  double squares = 0;
  for (const double each : rates) squares += each * each;
  return sum * sum / (static_cast<double>(rates.size()) * squares);
}

// Removes the restriction to one processor, which process_pair sets.
void use_all_processors() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  if (::sched_setaffinity(0, sizeof all, &all) != 0) fail("cannot use all processors");
}

void send_share(const process_pair& pair) {
  device_side side(pair, memory_kind::ordinary, messages_in_flight * message);
  pair.meet();
  const auto bytes = static_cast<double>(stream_writes(side, 1.0));
  pair.send(std::as_bytes(std::span(&bytes, 1)));
  send_end(side);
  pair.meet();
}

}  // namespace

double send_latency(const hosts& between) {
  return send_latency(between.pair(), {memory_kind::ordinary, 8});
}

double send_rate(const hosts& between) {
  return send_rate(between.pair(), {memory_kind::ordinary, 8});
}

double write_bandwidth(const hosts& between) {
  device_side side(between.pair(), memory_kind::ordinary, messages_in_flight * message);
  if (between.is_child()) {
    between.pair().meet();
    receive_until_end(side);
    for (std::size_t slot = 0; slot < messages_in_flight; ++slot)
      if (side.inbox()[(slot + 1) * message - 1] != pattern)
        fail("what was written did not arrive");
    between.pair().meet();
    return 0;
  }
  std::ranges::fill(side.outbox(), pattern);
  between.pair().meet();
  const auto start = now();
  const std::uint64_t bytes = stream_writes(side, 1.0);
  const double spent = seconds_since(start);
  send_end(side);
  between.pair().meet();
  return static_cast<double>(bytes) / spent;
}

double repair_time(const hosts& between) {
  constexpr std::size_t count = 2000;
  device_side side(between.pair(), memory_kind::ordinary, 4096);
  if (between.is_child()) {
    post_receives(side, device_side::depth, 8);
    between.pair().meet();
    for (std::size_t left = count; left > 0;) {
      const std::size_t done = drain(side.receives(), 1);
      left -= std::min(left, done);
      post_receives(side, done, 8);
    }
    between.pair().meet();
    return 0;
  }
  between.pair().meet();
  std::vector<double> times(count);
  for (double& each : times) {
    const auto start = now();
    auto batch = side.qp().start_send();
    batch.send({.signaled = true}, side.outbox_slice(0, 8));
    batch.submit().value();
    drain(side.sends(), 1);
    each = seconds_since(start) * 1e9;
  }
  between.pair().meet();
  // With a loss of 4 % of the requests, the slowest 4 % are those that were repaired.
  std::ranges::sort(times, std::greater<>());
  return times[count * 2 / 100];
}

double fairness(const hosts& between) {
  std::vector<process_pair> more;
  more.reserve(senders);
  for (std::size_t i = 1; i < senders && !between.is_child(); ++i) {
    use_all_processors();
    more.push_back(process_pair::start());
    if (!more.back().is_child()) continue;
    send_share(more.back());
    std::exit(0);
  }
  if (between.is_child()) {
    send_share(between.pair());
    return 0;
  }
  std::vector<const process_pair*> pairs{&between.pair()};
  for (const process_pair& each : more) pairs.push_back(&each);
  std::vector<std::unique_ptr<device_side>> sides;
  for (const process_pair* const each : pairs) {
    sides.push_back(
        std::make_unique<device_side>(*each, memory_kind::ordinary, messages_in_flight * message));
    post_receives(*sides.back(), 1, 8);
  }
  for (const process_pair* const each : pairs) each->meet();
  for (const auto& side : sides) drain(side->receives(), 1);
  std::vector<double> rates(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i]->receive(std::as_writable_bytes(std::span(&rates[i], 1)));
    pairs[i]->meet();
  }
  for (const process_pair& each : more)
    if (each.finish() != 0) fail("a sender failed");
  return jain_index(rates);
}

double rate_of_connections(const hosts& between, std::size_t connections) {
  return write_rate(between.pair(), connections);
}

}  // namespace bench
