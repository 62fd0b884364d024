// SPDX-License-Identifier: MIT
// Writes over two rails of soft0 while the second one is taken down and up again. Prints two
// numbers: the operations that failed, and the bytes per second from 1 s after the port has become
// active divided by the bytes per second before the failure. Ends with status 1 if the second rail
// was not used before or after the failure.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/local/process_pair.hpp"
#include "verbena/net.hpp"
#include "verbena/verbena.hpp"

namespace {

using namespace std::chrono_literals;
namespace net = verbena::net;
using bench::fail;
using clock = std::chrono::steady_clock;

constexpr std::size_t block_bytes = std::size_t{4} << 20U;
constexpr auto time_of_phase = 1s;
constexpr auto time_of_failure = 300ms;
constexpr std::uint32_t flapping = 1;
constexpr verbena::access_flags all_access =
    verbena::access::local_write | verbena::access::remote_write;

verbena::deadline time_limit() { return verbena::deadline::after(60s); }

std::vector<net::rail_port> open_rails() {
  std::vector<net::rail_port> rails;
  for (const std::uint8_t port : {1, 2}) {
    const auto context = verbena::open_device("soft0").value();
    rails.push_back(
        {.domain = context.allocate_pd().value(), .route = {.port = verbena::port_number(port)}});
  }
  return rails;
}

verbena::bringup::stream stream_of(const bench::process_pair& pair) {
  if (pair.is_child()) {
    auto listening = verbena::bringup::listener::open({.host = "127.0.0.1"}).value();
    const std::uint16_t port = listening.local_address().port;
    pair.send(std::as_bytes(std::span(&port, 1)));
    return listening.accept(time_limit()).value();
  }
  std::uint16_t port = 0;
  pair.receive(std::as_writable_bytes(std::span(&port, 1)));
  return verbena::bringup::stream::connect({.host = "127.0.0.1", .port = port}, time_limit())
      .value();
}

void be_written_to(const bench::process_pair& pair) {
  const auto rails = open_rails();
  const auto memory = net::rail_memory::allocate(rails, block_bytes, all_access).value();
  auto stream = stream_of(pair);
  stream.send(memory.remote().encode(), time_limit()).value();
  const auto responder =
      net::rail_responder::accept(std::move(stream), rails, time_limit()).value();
  pair.meet();
}

class writer {
 public:
  explicit writer(const bench::process_pair& pair) {
    auto stream = stream_of(pair);
    theirs_ = net::rail_region::decode(stream.receive(time_limit()).value()).value();
    // Connected again in time for the measurement 1 s after the port has become active.
    channel_ = net::multi_rail_channel::connect(std::move(stream), ports_, time_limit(),
                                                {.hold_down = 500ms})
                   .value();
  }

  /// Writes for the time, and returns the bytes per second.
  double write_for(std::chrono::nanoseconds time) {
    std::uint64_t bytes = 0;
    const auto start = clock::now();
    auto now = start;
    for (; now - start < time; now = clock::now()) {
      if (channel_->write(net::rail_source(memory_), theirs_, time_limit()))
        bytes += block_bytes;
      else
        ++failed_;
    }
    return static_cast<double>(bytes) / std::chrono::duration<double>(now - start).count();
  }
  /// Writes for the time; ends the program unless the second rail carries a part.
  double write_over_both_for(std::chrono::nanoseconds time) {
    const auto before = channel_->status(flapping).counters.bytes_written;
    const double rate = write_for(time);
    if (channel_->status(flapping).counters.bytes_written == before)
      fail("the second rail was not used");
    return rate;
  }
  /// Takes the port of the second rail down, in the middle of a write, and up again.
  void flap() {
    inject("when opcode=rdma_write at=10 do port 2 down");
    write_for(time_of_failure);
    if (channel_->status(flapping).state == net::rail_state::active)
      fail("the second rail did not fail");
    inject("clear-faults; port 2 up");
  }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }

 private:
  void inject(const char* command) {
    verbena::inject_event(ports_[0].domain.context(), command).value();
  }

  std::vector<net::rail_port> ports_ = open_rails();
  net::rail_memory memory_ = net::rail_memory::allocate(ports_, block_bytes, all_access).value();
  net::rail_region theirs_;
  std::optional<net::multi_rail_channel> channel_;
  std::uint64_t failed_ = 0;
};

void measure(const bench::process_pair& pair) {
  writer mine(pair);
  mine.write_for(time_of_phase / 4);  // the first writes touch the memory
  const double before = mine.write_over_both_for(time_of_phase);
  mine.flap();
  mine.write_for(1s);
  const double after = mine.write_over_both_for(time_of_phase);
  pair.meet();
  std::printf("%llu %.3f\n", static_cast<unsigned long long>(mine.failed()), after / before);
}

}  // namespace

int main() try {
  // soft0 has one port by default.
  ::setenv("VERBENA_SOFTDEV_PORTS", "2", 1);  // NOLINT(concurrency-mt-unsafe): no thread yet
  const auto pair = bench::process_pair::start();
  if (pair.is_child())
    be_written_to(pair);
  else
    measure(pair);
  std::fflush(stdout);
  return pair.finish();
} catch (const verbena::exception& failed) {
  return verbena::print_error(failed.error());
}
