// SPDX-License-Identifier: MIT
// Use of a parent's objects by a child of fork().
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

/// Starts a child process that runs `body` and exits with its result.
template <class Body>
pid_t start_child(Body body) {
  std::fflush(stdout);
  const pid_t child = fork();
  require(child >= 0, "fork failed");
  if (child == 0) std::_Exit(body());
  return child;
}
/// Waits for a child and returns its exit status. If a signal ended the child, aborts.
int end_of(pid_t child) {
  int status = 0;
  require(waitpid(child, &status, 0) == child, "waitpid failed");
  if (WIFSIGNALED(status)) std::abort();
  return WEXITSTATUS(status);
}

/// A pair of connected sockets for the exchange of endpoints.
struct socket_pair {
  std::array<int, 2> ends{-1, -1};
  socket_pair() {
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "socketpair failed");
  }
};
/// One side of a connection between two processes. Each process opens the device itself.
struct connected_side {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, all_access).value();
  completion_queue cq = device.create_cq(16).value();
  std::optional<queue_pair<rc>> queue;

  explicit connected_side(int fd) {
    auto prepared = pd.create_qp<rc>(cq, cq, {.reliability = {.retry_count = 1}}).value();
    const auto mine = prepared.endpoint().encode();
    std::array<std::byte, endpoint::encoded_size> theirs{};
    require(write(fd, mine.data(), mine.size()) == ssize_t{mine.size()},
            "the exchange of endpoints failed");
    require(recv(fd, theirs.data(), theirs.size(), MSG_WAITALL) == ssize_t{theirs.size()},
            "the exchange of endpoints failed");
    queue.emplace(std::move(prepared).handshake(endpoint::decode(theirs).value()).value());
  }
};

// A worker posts to a queue pair that its parent created.
void worker_posts_to_parents_queue_pair() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  const pid_t worker = start_child([&] {
    auto batch = with.a->queue.start_send();
    batch.send({.id = 2, .signaled = true}, with.memory.slice(0, 64));
    static_cast<void>(batch.submit());
    return 0;
  });
  require(end_of(worker) == 0, "the worker failed");
  if (take(with.b->receives, 1, short_deadline()).empty())
    harmed("the message of the worker never arrives");
}
void worker_opens_the_device() {
  const socket_pair between;
  const pid_t worker = start_child([&] {
    connected_side mine(between.ends[1]);
    send(*mine.queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 64)).value();
    take_successful(mine.cq, 1);
    return 0;
  });
  connected_side mine(between.ends[0]);
  mine.queue->post_receive({.id = 1}, mine.memory.slice(0, 64)).value();
  take_successful(mine.cq, 1);
  require(end_of(worker) == 0, "the worker failed");
}

// A server connects and then becomes a daemon: it forks, and the parent exits.
pid_t start_daemon(const socket_pair& between) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // the daemon becomes a child of this process
  const pid_t server = start_child([&] {
    connected_side mine(between.ends[1]);
    std::array<char, 16> text{};
    const int daemon = static_cast<int>(start_child([&] {
      static_cast<void>(mine.queue->post_receive({.id = 1}, mine.memory.slice(0, 64)));
      return 0;
    }));
    std::snprintf(text.data(), text.size(), "%15d", daemon);
    require(write(between.ends[1], text.data(), text.size()) == ssize_t{text.size()},
            "the process ID was not sent");
    return 0;
  });
  return server;
}
void fork_daemon_after_connecting() {
  const socket_pair between;
  const pid_t server = start_daemon(between);
  connected_side mine(between.ends[0]);
  std::array<char, 16> text{};
  require(recv(between.ends[0], text.data(), text.size(), MSG_WAITALL) == ssize_t{text.size()},
          "the process ID of the daemon was not received");
  require(end_of(server) == 0, "the server failed");
  require(end_of(std::atoi(text.data())) == 0, "the daemon failed");
  send(*mine.queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 64)).value();
  const auto ends = take(mine.cq, 1);
  if (ends.empty() || !ends[0].ok()) harmed("the send fails: the connection ended with the parent");
}
void fork_daemon_before_connecting() {
  const socket_pair between;
  const pid_t daemon = start_child([&] {
    connected_side mine(between.ends[1]);
    mine.queue->post_receive({.id = 1}, mine.memory.slice(0, 64)).value();
    take_successful(mine.cq, 1);
    return 0;
  });
  connected_side mine(between.ends[0]);
  send(*mine.queue, {.id = 2, .signaled = true}, mine.memory.slice(0, 64)).value();
  take_successful(mine.cq, 1);
  require(end_of(daemon) == 0, "the daemon failed");
}

// Parent and child poll one queue. Each has a copy of the completions at the time of the fork.
void poll_by_parent_and_child() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.a->sends, 1);
  const pid_t worker =
      start_child([&] { return static_cast<int>(take(with.b->receives, 1).size()); });
  const int by_the_worker = end_of(worker);
  const auto by_the_parent = take(with.b->receives, 1).size();
  if (by_the_worker + by_the_parent > 1)
    harmed("both processes received the completion of message 1");
}
void poll_by_parent_only() {
  pair with;
  put(with.at(0, 64), "8 bytes!");
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.a->sends, 1);
  take_successful(with.b->receives, 1);
  const std::string message = text_at(with.at(4096, 8), 8);
  const pid_t worker = start_child([&] { return message == "8 bytes!" ? 0 : 1; });
  require(end_of(worker) == 0, "the message has other bytes");
}

constexpr crate does_not_handle_fork = {answer::no, "it does not handle fork"};

constexpr std::array entries = {
    entry{.name = "child_posts_to_parents_queue_pair",
          .kind = "fork",
          .mistake = "a worker posts to a queue pair that was created before the fork",
          .seen = "libfabric #9792, ceph PR #13525: all resources are created again after a fork",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a queue was used by a forked child of the process that created it",
          .ibverbs = does_not_handle_fork,
          .ibverbs_rs = does_not_handle_fork,
          .rrddmma = does_not_handle_fork,
          .harmful = &worker_posts_to_parents_queue_pair,
          .caught = &worker_posts_to_parents_queue_pair,
          .twin = &worker_opens_the_device},
    entry{.name = "daemon_forked_after_connecting",
          .kind = "fork",
          .mistake = "daemon(3) is called after connecting: the connection ends with the parent",
          .seen = "ceph PR #10600: daemonize before creating messenger",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a queue was used by a forked child of the process that created it",
          .ibverbs = does_not_handle_fork,
          .ibverbs_rs = does_not_handle_fork,
          .rrddmma = does_not_handle_fork,
          .harmful = &fork_daemon_after_connecting,
          .caught = &fork_daemon_after_connecting,
          .twin = &fork_daemon_before_connecting},
    entry{.name = "completions_polled_by_parent_and_child",
          .kind = "fork",
          .mistake = "parent and child poll one completion queue: both get its completions",
          .seen = "rpma #751: the child of a server uses the parent's objects",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a queue was used by a forked child of the process that created it",
          .ibverbs = does_not_handle_fork,
          .ibverbs_rs = does_not_handle_fork,
          .rrddmma = does_not_handle_fork,
          .harmful = &poll_by_parent_and_child,
          .caught = &poll_by_parent_and_child,
          .twin = &poll_by_parent_only},
};

}  // namespace
}  // namespace fork_entries

std::span<const entry> forks() { return fork_entries::entries; }

}  // namespace verbena::zoo
