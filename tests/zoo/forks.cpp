// SPDX-License-Identifier: MIT
// What a child of fork() does with what its parent has set up.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace fork_entries {
namespace {

/// Starts `body` in a child, which ends with what it returns.
template <class Body>
pid_t start_child(Body body) {
  std::fflush(stdout);
  const pid_t child = fork();
  require(child >= 0, "no child");
  if (child == 0) std::_Exit(body());
  return child;
}
/// How a child ended: its status. One that was stopped stops this process too.
int end_of(pid_t child) {
  int status = 0;
  require(waitpid(child, &status, 0) == child, "the child is gone");
  if (WIFSIGNALED(status)) std::abort();
  return WEXITSTATUS(status);
}

/// A pair of connected sockets, for endpoints.
struct wire {
  std::array<int, 2> ends{-1, -1};
  wire() { require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "no sockets"); }
};
/// One end of a connection between two processes, each with a device that it has opened itself.
struct own_end {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, every_right).value();
  completion_queue cq = device.create_cq(16).value();
  std::optional<queue_pair<rc>> queue;

  explicit own_end(int line) {
    auto prepared = pd.create_qp<rc>(cq, cq, {.reliability = {.retry_count = 1}}).value();
    const auto mine = prepared.endpoint().encode();
    std::array<std::byte, endpoint::encoded_size> theirs{};
    require(write(line, mine.data(), mine.size()) == ssize_t{mine.size()}, "the wire is broken");
    require(recv(line, theirs.data(), theirs.size(), MSG_WAITALL) == ssize_t{theirs.size()},
            "the wire is broken");
    queue.emplace(std::move(prepared).handshake(endpoint::decode(theirs).value()).value());
  }
};

// A worker sends by the queue pair that its parent has made.
void worker_sends_by_the_parents_queue() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  const pid_t worker = start_child([&] {
    auto batch = with.a->queue.start_send();
    batch.send({.id = 2, .signaled = true}, with.memory.slice(0, 64));
    static_cast<void>(batch.submit());
    return 0;
  });
  require(end_of(worker) == 0, "the worker failed");
  if (take(with.b->receives, 1, briefly()).empty()) harmed("what the worker sent never comes");
}
void worker_with_a_device_of_its_own() {
  const wire between;
  const pid_t worker = start_child([&] {
    own_end mine(between.ends[1]);
    send(*mine.queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 64)).value();
    take_good(mine.cq, 1);
    return 0;
  });
  own_end mine(between.ends[0]);
  mine.queue->post_receive({.id = 1}, mine.memory.slice(0, 64)).value();
  take_good(mine.cq, 1);
  require(end_of(worker) == 0, "the worker failed");
}

// A server sets everything up, and then becomes a daemon: that is a child, and the parent exits.
pid_t start_daemon(const wire& between) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // the daemon becomes a child of this process
  const pid_t server = start_child([&] {
    own_end mine(between.ends[1]);
    std::array<char, 16> text{};
    const int daemon = static_cast<int>(start_child([&] {
      static_cast<void>(mine.queue->post_receive({.id = 1}, mine.memory.slice(0, 64)));
      return 0;
    }));
    std::snprintf(text.data(), text.size(), "%15d", daemon);
    require(write(between.ends[1], text.data(), text.size()) == ssize_t{text.size()}, "no wire");
    return 0;
  });
  return server;
}
void daemon_after_everything_was_set_up() {
  const wire between;
  const pid_t server = start_daemon(between);
  own_end mine(between.ends[0]);
  std::array<char, 16> text{};
  require(recv(between.ends[0], text.data(), text.size(), MSG_WAITALL) == ssize_t{text.size()},
          "no daemon");
  require(end_of(server) == 0, "the server failed");
  require(end_of(std::atoi(text.data())) == 0, "the daemon failed");
  send(*mine.queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 64)).value();
  const auto ends = take(mine.cq, 1);
  if (ends.empty() || !ends[0].ok()) harmed("nobody is there: the connection went with the parent");
}
void daemon_before_anything_is_set_up() {
  const wire between;
  const pid_t daemon = start_child([&] {
    own_end mine(between.ends[1]);
    mine.queue->post_receive({.id = 1}, mine.memory.slice(0, 64)).value();
    take_good(mine.cq, 1);
    return 0;
  });
  own_end mine(between.ends[0]);
  send(*mine.queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 64)).value();
  take_good(mine.cq, 1);
  require(end_of(daemon) == 0, "the daemon failed");
}

// Parent and child poll one queue: each has a copy of what was in it at the fork.
void message_handled_by_both() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_good(with.a->sends, 1);
  const pid_t worker =
      start_child([&] { return static_cast<int>(take(with.b->receives, 1).size()); });
  const int by_the_worker = end_of(worker);
  const auto by_the_parent = take(with.b->receives, 1).size();
  if (by_the_worker + by_the_parent > 1) harmed("message 1 was handled by both");
}
void message_handled_by_one() {
  pair with;
  put(with.at(0, 64), "a letter");
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_good(with.a->sends, 1);
  take_good(with.b->receives, 1);
  const std::string message = text_at(with.at(4096, 8), 8);
  const pid_t worker = start_child([&] { return message == "a letter" ? 0 : 1; });
  require(end_of(worker) == 0, "another message");
}

constexpr crate knows_no_fork = {answer::no, "nothing in it knows of fork"};

constexpr std::array entries = {
    entry{.name = "child_sends_by_its_parents_queue",
          .kind = "fork",
          .mistake = "a worker posts to a queue pair that was made before the fork",
          .seen = "libfabric #9792, ceph PR #13525: every resource is made anew after a fork",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a queue was used by a forked child of the process that created it",
          .ibverbs = knows_no_fork,
          .ibverbs_rs = knows_no_fork,
          .rrddmma = knows_no_fork,
          .harmful = &worker_sends_by_the_parents_queue,
          .caught = &worker_sends_by_the_parents_queue,
          .twin = &worker_with_a_device_of_its_own},
    entry{.name = "daemon_made_after_the_set_up",
          .kind = "fork",
          .mistake = "daemon(3) is called after the connection was made: it went with the parent",
          .seen = "ceph PR #10600: daemonize before creating messenger",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a queue was used by a forked child of the process that created it",
          .ibverbs = knows_no_fork,
          .ibverbs_rs = knows_no_fork,
          .rrddmma = knows_no_fork,
          .harmful = &daemon_after_everything_was_set_up,
          .caught = &daemon_after_everything_was_set_up,
          .twin = &daemon_before_anything_is_set_up},
    entry{.name = "completions_polled_by_parent_and_child",
          .kind = "fork",
          .mistake = "parent and child poll one completion queue: what is in it is there twice",
          .seen = "rpma #751: the child of a server that goes on with the parent's objects",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a queue was used by a forked child of the process that created it",
          .ibverbs = knows_no_fork,
          .ibverbs_rs = knows_no_fork,
          .rrddmma = knows_no_fork,
          .harmful = &message_handled_by_both,
          .caught = &message_handled_by_both,
          .twin = &message_handled_by_one},
};

}  // namespace
}  // namespace fork_entries

std::span<const entry> forks() { return fork_entries::entries; }

}  // namespace verbena::zoo
