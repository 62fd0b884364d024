// SPDX-License-Identifier: MIT
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "bench/local/measure.hpp"
#include "bench/scale/scale_modes.hpp"
#include "bench/scale/scale_side.hpp"

namespace bench {
namespace {

// Short chunks: on a busy machine, the median is of those in which the process was not preempted.
constexpr repetitions times{.chunks = 640, .per_chunk = 256};
constexpr std::size_t warm_up = 4096;
constexpr std::size_t others = 1000;

// Posts `count` requests; `post(index)` posts one to a queue pair.
template <class Post>
void post_randomly(const scale_side& side, random_index& chosen, std::size_t count, Post&& post) {
  std::size_t outstanding = 0;
  for (std::size_t i = 0; i < count; ++i) {
    post(chosen.next());
    if (++outstanding < scale_side::depth) continue;
    std::size_t done = 0;
    while (done == 0) done = poll_once(side.sends());
    outstanding -= done;
  }
  drain(side.sends(), outstanding);
}

void receive(scale_side& side, std::size_t count) {
  for (std::size_t seen = 0; seen < count;) {
    const std::size_t now = poll_once(side.receives());
    seen += now;
    if (now > 0) side.post_receives(now);
  }
}

double processor_ms() {
  timespec now{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) fail("no processor time");
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void post_send(verbena::queue_pair<verbena::rc>& on, const verbena::local_slice& what) {
  auto batch = on.start_send();
  batch.send({.signaled = true}, what);
  batch.submit().value();
}

}  // namespace

double write_rate(const process_pair& pair, std::size_t queue_pairs) {
  scale_side side(pair, {.queue_pairs = queue_pairs});
  double ns = 0;
  if (pair.is_parent()) {
    random_index chosen(queue_pairs);
    const auto slice = side.message();
    const auto peer = side.peer();
    const auto run = [&](std::size_t count) {
      post_randomly(side, chosen, count, [&](std::size_t index) {
        auto batch = side.qps()[index].start_send();
        batch.write({.signaled = true}, slice, peer);
        batch.submit().value();
      });
    };
    run(warm_up);
    ns = median_ns(times, run);
  }
  pair.meet();
  return ns > 0 ? 1e9 / ns : 0;
}

double send_rate(const process_pair& pair, std::size_t queue_pairs) {
  scale_side side(pair, {.queue_pairs = queue_pairs});
  if (pair.is_child()) {
    side.post_receives(2UL * scale_side::depth);
    pair.meet();
    receive(side, times.total() + warm_up);
    pair.meet();
    return 0;
  }
  pair.meet();
  random_index chosen(queue_pairs);
  const auto slice = side.message();
  const auto run = [&](std::size_t count) {
    post_randomly(side, chosen, count,
                  [&](std::size_t index) { post_send(side.qps()[index], slice); });
  };
  run(warm_up);
  const double ns = median_ns(times, run);
  pair.meet();
  return 1e9 / ns;
}

double arming(const process_pair& pair, std::size_t queue_pairs) {
  scale_side side(pair, {.queue_pairs = queue_pairs});
  double ns = 0;
  if (pair.is_parent()) {
    ns = median_ns({.chunks = 50, .per_chunk = 100}, [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i)
        side.receives().request_notification(verbena::notify::any_completion).value();
    });
  }
  pair.meet();
  return ns;
}

double rate_beside_waiting(const process_pair& pair, std::size_t waiting) {
  const auto retry_after = verbena::rnr_timer::at_least(std::chrono::milliseconds(400));
  scale_side side(pair, {.queue_pairs = 1 + others,
                         .own_receives = true,
                         .reliability = {.rnr_retry_count = 7, .min_rnr_timer = retry_after}});
  auto& active = side.qps()[0];
  const auto post_receives = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto batch = active.start_receive();
      batch.receive({}, side.message());
      batch.submit().value();
    }
  };
  if (pair.is_child()) {
    post_receives(scale_side::depth);
    pair.meet();
    for (std::size_t left = times.total() + warm_up; left > 0;) {
      const std::size_t now = poll_once(side.receives());
      post_receives(now);
      left -= now;
    }
    pair.meet();
    return 0;
  }
  for (std::size_t i = 1; i <= waiting; ++i) post_send(side.qps()[i], side.message());
  pair.meet();
  const auto run = [&](std::size_t count) {
    std::size_t outstanding = 0;
    for (std::size_t i = 0; i < count; ++i) {
      post_send(active, side.message());
      if (++outstanding < scale_side::depth / 2) continue;
      std::size_t done = 0;
      while (done == 0) done = poll_once(side.sends());
      outstanding -= done;
    }
    drain(side.sends(), outstanding);
  };
  run(warm_up);
  const double ns = median_ns(times, run);
  pair.meet();
  return 1e9 / ns;
}

double idle_time(const process_pair& pair, std::size_t queue_pairs) {
  scale_side side(pair, {.queue_pairs = queue_pairs});
  // One message in each direction, so that the processes have been at work.
  side.post_receives(1);
  pair.meet();
  post_send(side.qps()[0], side.message());
  drain(side.sends(), 1);
  drain(side.receives(), 1);
  pair.meet();
  constexpr auto settling = std::chrono::milliseconds(500);
  constexpr auto measured = std::chrono::seconds(5);
  // lint: allow(sleep): the process is to become idle
  std::this_thread::sleep_for(settling);
  const double before = processor_ms();
  // lint: allow(sleep): the time in which it is idle
  std::this_thread::sleep_for(measured);
  const double mine = (processor_ms() - before) / std::chrono::duration<double>(measured).count();
  double theirs = 0;
  std::memcpy(&theirs, exchange_bytes(pair, std::as_bytes(std::span(&mine, 1))).data(),
              sizeof theirs);
  return std::max(mine, theirs);
}

}  // namespace bench
