// SPDX-License-Identifier: MIT
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bench/profile/instruction_trace.hpp"
#include "bench/scale/scale_modes.hpp"
#include "bench/scale/scale_side.hpp"

namespace bench {
namespace {

constexpr std::size_t warm_up = 300;  // the locks find their owner
constexpr std::size_t counted = 100;  // operations

// Waits for one completion. A failed request ends the program.
void drain_one(const verbena::completion_queue& from) {
  std::array<verbena::completion, 1> room;
  for (;;) {
    const auto found = from.poll(room).value();
    if (found.empty()) continue;
    found.front().result().value();
    return;
  }
}

// A thread's objects: a queue pair with completion queues of its own.
struct thread_side {
  verbena::completion_queue sends;
  verbena::completion_queue receives;
  verbena::memory_region region;
  std::optional<verbena::prepared_queue_pair<verbena::rc>> prepared = {};
  std::optional<verbena::queue_pair<verbena::rc>> qp = {};

  thread_side(const verbena::context& context, const verbena::protection_domain& pd)
      : sends(context.create_cq(256).value()),
        receives(context.create_cq(256).value()),
        region(pd.allocate(4096, verbena::access::local_write | peer_access).value()),
        prepared(
            pd.create_qp<verbena::rc>(
                  sends, receives,
                  {.access = peer_access,
                   .reliability = {.rnr_retry_count = verbena::reliability::unlimited_rnr_retries}})
                .value()) {}

  void connect(const verbena::endpoint& to) { qp = std::move(*prepared).handshake(to).value(); }
  void post_receive() {
    auto batch = qp->start_receive();
    batch.receive({}, region.slice(0, 8));
    batch.submit().value();
  }
  void post_send() {
    auto batch = qp->start_send();
    batch.send({.signaled = true}, region.slice(0, 8));
    batch.submit().value();
  }
  void write(const verbena::remote_region& to) {
    auto batch = qp->start_send();
    batch.write({.signaled = true}, region.slice(0, 8), to);
    batch.submit().value();
    drain_one(sends);
  }
};

struct device {
  verbena::context context = verbena::open_device("soft0").value();
  verbena::protection_domain pd = context.allocate_pd().value();
  std::vector<std::unique_ptr<thread_side>> sides = {};

  explicit device(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i)
      sides.push_back(std::make_unique<thread_side>(context, pd));
  }
  void connect(const process_pair& pair) {
    constexpr std::size_t size = verbena::endpoint::encoded_size;
    std::vector<std::byte> mine;
    for (auto& each : sides) {
      const auto encoded = each->prepared->endpoint().encode();
      mine.insert(mine.end(), encoded.begin(), encoded.end());
    }
    const auto theirs = exchange_bytes(pair, mine);
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const auto bytes = std::span(theirs).subspan(i * size).first<size>();
      sides[i]->connect(verbena::endpoint::decode(bytes).value());
    }
  }
};

// Runs `work(i)` in one thread for each i from 1, which then waits without limit; then in this
// thread for 0.
template <class Work>
void warm_up_threads(std::size_t threads, Work work) {
  std::atomic<std::size_t> ready{1};
  for (std::size_t i = 1; i < threads; ++i) {
    std::thread([&ready, work, i] {
      work(i);
      ready.fetch_add(1);
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable never;
      never.wait(lock, [] { return false; });
    }).detach();
  }
  while (ready.load() < threads) std::this_thread::yield();
  work(0);
}

std::string result_of(const std::function<void()>& prepare, const std::function<void()>& once) {
  const auto found = count_instructions(prepare, [&] {
    for (std::size_t i = 0; i < counted; ++i) once();
  });
  if (!found) fail("ptrace(2) is not permitted, or this is not x86-64");
  std::array<char, 64> text{};
  const auto each = [](std::uint64_t all) { return static_cast<double>(all) / counted; };
  std::snprintf(text.data(), text.size(), "%.2f %.2f", each(found->all), each(found->locked));
  return text.data();
}

}  // namespace

std::string send_instructions(std::size_t threads) {
  std::unique_ptr<device> mine;
  const auto send_once = [](thread_side& on) {
    on.post_receive();
    on.post_send();
    drain_one(on.sends);
    drain_one(on.receives);
  };
  return result_of(
      [&] {
        mine = std::make_unique<device>(threads);
        for (auto& each : mine->sides) {
          const auto myself = each->prepared->endpoint();
          each->connect(myself);
        }
        warm_up_threads(threads, [&](std::size_t index) {
          for (std::size_t i = 0; i < warm_up; ++i) send_once(*mine->sides[index]);
        });
      },
      [&] { send_once(*mine->sides[0]); });
}

std::string write_instructions(std::size_t threads) {
  const auto pair = process_pair::start();
  if (pair.is_child()) {
    device side(threads);
    side.connect(pair);
    static_cast<void>(exchange_bytes(pair, side.sides[0]->region.remote().encode()));
    pair.meet();
    return {};
  }
  std::unique_ptr<device> mine;
  std::optional<verbena::remote_region> to;
  const auto text = result_of(
      [&] {
        mine = std::make_unique<device>(threads);
        mine->connect(pair);
        const auto bytes = exchange_bytes(pair, mine->sides[0]->region.remote().encode());
        to = verbena::remote_region::decode(
                 std::span(bytes).first<verbena::remote_region::encoded_size>())
                 .value();
        warm_up_threads(threads, [&](std::size_t index) {
          for (std::size_t i = 0; i < warm_up; ++i) mine->sides[index]->write(*to);
        });
      },
      [&] { mine->sides[0]->write(*to); });
  pair.meet();
  static_cast<void>(pair.finish());
  return text;
}

double thread_rate(const process_pair& pair, std::size_t threads) {
  constexpr std::size_t outstanding = 16;
  device side(threads);
  side.connect(pair);
  for (auto& each : side.sides)
    for (std::size_t i = 0; i < 2 * outstanding; ++i) each->post_receive();
  pair.meet();
  const std::size_t messages = 60'000 / threads / outstanding * outstanding;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  running.reserve(threads);
  for (auto& each : side.sides) {
    running.emplace_back([&pair, messages, on = each.get()] {
      if (pair.is_parent()) {
        for (std::size_t i = 0; i < messages; i += outstanding) {
          for (std::size_t one = 0; one < outstanding; ++one) on->post_send();
          drain(on->sends, outstanding);
        }
        return;
      }
      for (std::size_t left = messages; left > 0;) {
        const std::size_t now = poll_once(on->receives);
        for (std::size_t i = 0; i < now; ++i) on->post_receive();
        left -= now;
      }
    });
  }
  for (auto& each : running) each.join();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  pair.meet();
  return static_cast<double>(messages * threads) / spent.count();
}

}  // namespace bench
