// SPDX-License-Identifier: MIT
#include "examples/rcopy/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "examples/rcopy/interruption.hpp"
#include "examples/rcopy/session.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/verbs/device_list.hpp"

namespace rcopy {
namespace {

using verbena::deadline;
using verbena::result;
using verbena::bringup::listener;
using verbena::bringup::stream;

/// Interval at which the idle server checks greeting timeouts.
constexpr auto check_interval = std::chrono::seconds(1);

/// The largest number of clients that wait to be served.
constexpr std::size_t max_waiting = 64;

/// Serves each client in a thread. Clients beyond `max_clients` wait for half of the timeout, so
/// that they receive a refusal before their own timeout.
class server {
 public:
  server(listener listening, verbena::unique_fd finished, directory files, verbena::context device,
         const serve_options& options)
      : finished_(std::move(finished)),
        listener_(std::move(listening)),
        files_(std::move(files)),
        device_(std::move(device)),
        options_(options) {}
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server() {
    for (auto& each : clients_) each.thread.join();
  }

  /// Serves clients until SIGINT or SIGTERM. Blocks.
  result<void> run();

 private:
  struct served_client {
    std::thread thread;
    std::atomic<bool> finished = false;
  };
  struct waiting_client {
    stream peer;
    deadline until;
  };
  [[nodiscard]] int poll_timeout_ms() const;
  void admit(stream peer);
  void admit_waiting();
  void refuse_client(stream& peer);
  void start(stream peer);
  void serve(stream peer, const verbena::context& device, std::atomic<bool>& finished);
  void join_finished();
  void print_line(std::FILE* where, const std::string& line);

  interruption interrupted_;
  verbena::unique_fd finished_;  // an eventfd, written when a client's thread ends
  listener listener_;
  directory files_;
  verbena::context device_;
  const serve_options& options_;
  std::mutex output_;
  std::list<served_client> clients_;
  std::list<waiting_client> waiting_;  // in the order of their deadlines
};

int server::poll_timeout_ms() const {
  const auto check = deadline::after(check_interval).poll_timeout_ms();
  return waiting_.empty() ? check : std::min(check, waiting_.front().until.poll_timeout_ms());
}

result<void> server::run() {
  while (true) {
    std::array<pollfd, 3> entries{pollfd{interrupted_.fd(), POLLIN, 0},
                                  pollfd{finished_.get(), POLLIN, 0},
                                  pollfd{listener_.fd(), POLLIN, 0}};
    static_cast<void>(::poll(entries.data(), entries.size(), poll_timeout_ms()));
    std::uint64_t count = 0;
    if (entries[1].revents != 0)
      static_cast<void>(::read(finished_.get(), &count, sizeof count) == sizeof count);
    join_finished();
    admit_waiting();
    if (entries[0].revents != 0) return {};
    auto peer = listener_.accept(deadline::after(std::chrono::nanoseconds::zero()));
    if (peer) {
      admit(*std::move(peer));
    } else if (peer.error().kind() != verbena::error_kind::timed_out) {
      print_line(stderr, "rcopy: serve: " + peer.error().message());
      // For example EMFILE, which lasts until a client ends. The listener is not polled meanwhile.
      static_cast<void>(::poll(entries.data(), 2, poll_timeout_ms()));
    }
  }
}

void server::admit(stream peer) {
  if (waiting_.empty() && clients_.size() < options_.max_clients) return start(std::move(peer));
  if (waiting_.size() >= max_waiting) return refuse_client(peer);
  waiting_.push_back({std::move(peer), deadline::after(options_.timeout / 2)});
}

void server::admit_waiting() {
  while (!waiting_.empty() && clients_.size() < options_.max_clients) {
    stream peer = std::move(waiting_.front().peer);
    waiting_.pop_front();
    start(std::move(peer));
  }
  while (!waiting_.empty() && waiting_.front().until.expired()) {
    refuse_client(waiting_.front().peer);
    waiting_.pop_front();
  }
}

void server::refuse_client(stream& peer) {
  print_line(stderr, "rcopy: serve: refused " + peer.peer() + ": too many clients");
  peer.refuse(std::string(busy_reason) + std::to_string(options_.max_clients) +
              " clients: try again later, or raise --max-clients of the server");
}

void server::start(stream peer) {
  auto& added = clients_.emplace_back();
  try {
    added.thread = std::thread([this, &added, device = device_, peer = std::move(peer)]() mutable {
      serve(std::move(peer), device, added.finished);
    });
  } catch (const std::exception& problem) {
    clients_.pop_back();
    print_line(stderr, std::string("rcopy: serve: cannot create the thread of a client: ") +
                           problem.what());
  }
}

void server::serve(stream peer, const verbena::context& device, std::atomic<bool>& finished) {
  try {
    const auto report = serve_client(peer, files_, device, options_, interrupted_.fd());
    if (!report.ok)
      print_line(stderr, "rcopy: serve: " + report.line);
    else if (!options_.quiet)
      print_line(stdout, report.line);
  } catch (const std::exception& problem) {  // out of memory
    print_line(stderr, "rcopy: serve: " + peer.peer() + ": " + problem.what());
  }
  finished = true;
  const std::uint64_t one = 1;
  static_cast<void>(::write(finished_.get(), &one, sizeof one) == sizeof one);
}

void server::join_finished() {
  std::erase_if(clients_, [](served_client& each) {
    if (!each.finished) return false;
    each.thread.join();
    return true;
  });
}

void server::print_line(std::FILE* where, const std::string& line) {
  const std::lock_guard lock(output_);
  std::fprintf(where, "%s\n", line.c_str());
  std::fflush(where);
}

result<void> serve(const serve_options& options) {
  VERBENA_TRY(auto files, directory::open(options.directory));
  files.remove_stale_temporaries();
  VERBENA_TRY(auto device, options.device.empty() ? verbena::open_device()
                                                  : verbena::open_device(options.device));
  verbena::bringup::listener_options listening;
  listening.greeting_timeout = options.timeout;
  VERBENA_TRY(auto listener, listener::open(options.at, listening));
  verbena::unique_fd finished(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!finished) return verbena::error::from_errno(errno, "eventfd", "rcopy serve");
  const std::string address = to_string(listener.local_address()) + " (" + device.name() + ")";
  server running(std::move(listener), std::move(finished), std::move(files), std::move(device),
                 options);
  // The line is printed after the signal handlers are installed, so that its reader may send
  // SIGTERM.
  if (!options.quiet) {
    std::printf("serving %s at %s; Ctrl-C stops the server\n", options.directory.c_str(),
                address.c_str());
    std::fflush(stdout);
  }
  return running.run();
}

}  // namespace

int run(const serve_options& options) {
  const auto served = serve(options);
  if (served) return 0;
  std::fprintf(stderr, "rcopy: serve: %s\n", one_line(served.error()).c_str());
  return 1;
}

}  // namespace rcopy
