// SPDX-License-Identifier: MIT
// Writes blocks to a peer over two ports of soft0, while the link of the second port flaps. No
// operation fails, and the peer has each word. The peer is a part of this process, with contexts of
// its own.
#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace net = verbena::net;
using namespace std::chrono_literals;

constexpr std::size_t block_bytes = 4UL * 1024 * 1024;
constexpr int blocks_per_phase = 20;
constexpr auto time_limit = 40s;
constexpr verbena::access_flags all_access =
    verbena::access::local_write | verbena::access::remote_write;

// [ports]
// Two rails: ports 1 and 2 of the device.
std::vector<net::rail_port> open_rails() {
  std::vector<net::rail_port> rails;
  for (const std::uint8_t port : {1, 2}) {
    const auto context = verbena::open_device("soft0").value();
    rails.push_back(
        {.domain = context.allocate_pd().value(), .route = {.port = verbena::port_number(port)}});
  }
  return rails;
}
// [/ports]

// The side whose memory is written. Its program does nothing: a thread of the responder serves the
// connection.
class passive_side {
 public:
  passive_side(verbena::bringup::listener& listening, verbena::deadline until) {
    // [passive]
    auto stream = listening.accept(until).value();
    stream.send(memory_.remote().encode(), until).value();
    responder_ = net::rail_responder::accept(std::move(stream), rails_, until).value();
    // [/passive]
  }
  // Returns whether the memory has the words of a block.
  [[nodiscard]] bool has(std::uint64_t first) const {
    const std::span words(reinterpret_cast<const std::uint64_t*>(memory_.bytes().data()),
                          block_bytes / sizeof first);
    for (std::size_t each = 0; each < words.size(); ++each)
      if (words[each] != first + each) return false;
    return true;
  }

 private:
  std::vector<net::rail_port> rails_ = open_rails();
  net::rail_memory memory_ = net::rail_memory::allocate(rails_, block_bytes, all_access).value();
  std::optional<net::rail_responder> responder_;
};

class active_side {
 public:
  active_side(const verbena::bringup::address& to, verbena::deadline until) : until_(until) {
    // [active]
    auto stream = verbena::bringup::stream::connect(to, until).value();
    theirs_ = net::rail_region::decode(stream.receive(until).value()).value();
    rails_ =
        net::multi_rail_channel::connect(std::move(stream), ports_, until, {.hold_down = 100ms})
            .value();
    // [/active]
  }
  // Writes a block with consecutive words.
  [[nodiscard]] bool write(std::uint64_t first) {
    const std::span words(reinterpret_cast<std::uint64_t*>(memory_.bytes().data()),
                          block_bytes / sizeof first);
    for (std::size_t each = 0; each < words.size(); ++each) words[each] = first + each;
    // [write]
    const auto written = rails_->write(net::rail_source(memory_), theirs_, until_);
    if (!written) std::printf("%s\n", written.error().message().c_str());
    // [/write]
    return written.has_value();
  }
  void wait_for(std::uint32_t rail, net::rail_state state) {
    while (rails_->status(rail).state != state && !until_.expired()) {
      rails_->progress();
      std::this_thread::yield();
    }
  }
  void inject(const std::string& command) {
    verbena::inject_event(ports_[0].domain.context(), command).value();
  }
  [[nodiscard]] net::rail_status status(std::uint32_t rail) const { return rails_->status(rail); }

 private:
  const verbena::deadline until_;
  std::vector<net::rail_port> ports_ = open_rails();
  net::rail_memory memory_ = net::rail_memory::allocate(ports_, block_bytes, all_access).value();
  net::rail_region theirs_;
  std::optional<net::multi_rail_channel> rails_;
};

}  // namespace

int main() {
  // soft0 has one port by default.
  ::setenv("VERBENA_SOFTDEV_PORTS", "2", 1);  // NOLINT(concurrency-mt-unsafe): no thread yet
  const auto until = verbena::deadline::after(time_limit);
  auto listening = verbena::bringup::listener::open({.host = "127.0.0.1"}).value();
  std::optional<passive_side> peer;
  std::thread accepting([&] { peer.emplace(listening, until); });
  active_side us(listening.local_address(), until);
  accepting.join();

  int failed = 0;
  int wrong = 0;
  std::uint64_t word = 1;
  std::uint64_t before[2] = {};
  std::printf("phase                    MiB on rail 0  MiB on rail 1  rail 1     failed  wrong\n");
  const auto phase = [&](const char* name) {
    for (int each = 0; each < blocks_per_phase; ++each, word += block_bytes) {
      failed += us.write(word) ? 0 : 1;
      wrong += peer->has(word) ? 0 : 1;
    }
    std::uint64_t mib[2];
    for (std::uint32_t rail = 0; rail < 2; ++rail) {
      const std::uint64_t now = us.status(rail).counters.bytes_written;
      mib[rail] = (now - std::exchange(before[rail], now)) >> 20U;
    }
    std::printf("%-24s %13llu  %13llu  %-9s  %6d  %5d\n", name,
                static_cast<unsigned long long>(mib[0]), static_cast<unsigned long long>(mib[1]),
                to_string(us.status(1).state).c_str(), failed, wrong);
    return mib[1];
  };
  const auto healthy = phase("both ports are active");
  // The 10th request of each queue pair takes the port down, in the middle of a write.
  us.inject("when opcode=rdma_write at=10 do port 2 down");
  phase("port 2 goes down");
  us.inject("clear-faults; port 2 up");
  phase("port 2 has returned");
  us.wait_for(1, net::rail_state::active);
  const auto again = phase("after the hold-down");
  std::printf("rail 1: %s\n", to_string(us.status(1)).c_str());
  return failed == 0 && wrong == 0 && healthy != 0 && again != 0 ? 0 : 1;
}
