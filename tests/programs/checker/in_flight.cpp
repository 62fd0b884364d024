// SPDX-License-Identifier: MIT
// in_flight CASE: accesses memory that is in flight, or accesses memory legally. The tests
// check the report of the sanitizer; without a sanitizer the mistakes do no harm here.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "verbena/verbena.hpp"

namespace {

using namespace verbena;

constexpr std::size_t bytes = 4096;

// A queue pair that is connected to itself, and registered memory of the program.
struct adapter {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue sends = device.create_cq(16).value();
  completion_queue receives = device.create_cq(16).value();
  std::unique_ptr<std::byte[]> memory = std::make_unique<std::byte[]>(bytes);
  memory_region region =
      pd.register_memory({memory.get(), bytes}, access::local_write | access::remote_read).value();
  queue_pair<rc> queue = connected();

  queue_pair<rc> connected() const {
    auto prepared =
        pd.create_qp<rc>(sends, receives,
                         {.access = access::remote_read, .reliability = {.rnr_retry_count = 7}})
            .value();
    const auto self = prepared.endpoint();
    return std::move(prepared).handshake(self).value();
  }
  void send() {
    auto batch = queue.start_send();
    batch.send({.id = 1, .signaled = true}, region.slice(0, 1024));
    batch.submit().value();
  }
  void receive() { queue.post_receive({.id = 2}, region.slice(2048, 1024)).value(); }
  static void take(const completion_queue& from) {
    std::array<completion, 1> room;
    while (true)
      for (const auto& done : from.poll(room).value()) {
        static_cast<void>(done.ok());
        return;
      }
  }
  void take_both() const {
    take(sends);
    take(receives);
  }
  void touch(std::size_t at) const { memory[at] = std::byte{1}; }
  [[nodiscard]] int look(std::size_t at) const { return std::to_integer<int>(memory[at]); }
};

// The mistakes.

void write_during_send() {
  adapter with;
  with.send();
  with.touch(100);
  with.receive();
  with.take_both();
}

void write_during_receive() {
  adapter with;
  with.receive();
  with.touch(2100);
  with.send();
  with.take_both();
}

void read_during_receive() {
  adapter with;
  with.receive();
  const int seen = with.look(2100);
  with.send();
  with.take_both();
  std::printf("%d\n", seen);
}

void free_during_receive() {
  adapter with;
  // ThreadSanitizer checks only the first kilobyte of freed memory.
  with.queue.post_receive({.id = 2}, with.region.slice(0, 64)).value();
  with.memory.reset();
  with.queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  with.take(with.receives);
}

// Legal accesses.

void read_during_send() {
  adapter with;
  with.send();
  if (with.look(100) != 0) std::abort();
  with.touch(1024);  // memory next to the slice in flight
  with.receive();
  with.take_both();
}

void one_after_the_other() {
  adapter with;
  for (int round = 0; round < 50; ++round) {
    with.touch(100);
    with.receive();
    with.send();
    with.take_both();
    if (with.look(2048 + 100) != 1) std::abort();
    std::memset(with.memory.get(), round, bytes);
  }
}

// One thread posts and another thread polls the completion; join() orders the other accesses.
void from_thread_to_thread() {
  adapter with;
  for (int round = 0; round < 10; ++round) {
    with.touch(100);
    with.receive();
    with.send();
    std::thread other([&] {
      with.take_both();
      with.touch(2100);
      with.touch(100);
    });
    other.join();
  }
}

void refused_and_reset() {
  adapter with;
  with.receive();
  with.queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
  with.touch(2100);
  if (with.queue.post_receive({}, with.region.slice()).has_value()) std::abort();
  with.touch(2100);
}

void destroyed() {
  std::optional<adapter> with(std::in_place);
  const auto memory = std::move(with->memory);
  with->queue.post_receive({.id = 2}, with->region.slice(2048, 1024)).value();
  static_cast<void>(std::move(with->queue).close());
  memory[2100] = std::byte{1};
  with.reset();
}

// The sanitizer's runtime observes fewer events in a child of a process with threads.
void child_of_fork() {
  adapter parents;
  parents.receive();
  parents.send();
  parents.take_both();
  const pid_t child = fork();
  if (child == 0) {
    adapter with;
    with.receive();
    with.send();
    with.take_both();
    with.send();  // posted before the receive: the runtime reuses the record of the first send
    with.receive();
    with.take_both();
    _exit(0);
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) std::abort();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view name = count == 2 ? arguments[1] : "";
  if (name == "write_during_send")
    write_during_send();
  else if (name == "write_during_receive")
    write_during_receive();
  else if (name == "read_during_receive")
    read_during_receive();
  else if (name == "free_during_receive")
    free_during_receive();
  else if (name == "read_during_send")
    read_during_send();
  else if (name == "one_after_the_other")
    one_after_the_other();
  else if (name == "from_thread_to_thread")
    from_thread_to_thread();
  else if (name == "refused_and_reset")
    refused_and_reset();
  else if (name == "destroyed")
    destroyed();
  else if (name == "child_of_fork")
    child_of_fork();
  else {
    std::fputs("usage: in_flight CASE\n", stderr);
    return 2;
  }
  std::puts("done");
  return 0;
}
