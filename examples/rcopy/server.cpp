// SPDX-License-Identifier: MIT
#include "examples/rcopy/server.hpp"

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "examples/rcopy/interruption.hpp"
#include "examples/rcopy/session.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/verbs/device_list.hpp"

namespace rcopy {
namespace {

using verbena::deadline;
using verbena::result;
using verbena::bringup::listener;
using verbena::bringup::stream;

/// Interval at which the idle listener checks greeting timeouts.
constexpr auto look_interval = std::chrono::seconds(1);

/// One thread for each client. Everything a client can do wrong stays in its thread.
class server {
 public:
  server(listener listening, directory files, verbena::context device, const serve_options& options)
      : listener_(std::move(listening)),
        files_(std::move(files)),
        device_(std::move(device)),
        options_(options) {}
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server() {
    for (auto& each : clients_) each.thread.join();
  }

  /// Until the user interrupts. Error: the listener is broken.
  result<void> run();

 private:
  struct place {
    std::thread thread;
    std::atomic<bool> finished = false;
  };
  void admit(stream peer);
  void serve(stream peer, const verbena::context& device, std::atomic<bool>& finished);
  void join_finished();
  void say(std::FILE* where, const std::string& line);

  interruption interrupted_;
  listener listener_;
  directory files_;
  verbena::context device_;
  const serve_options& options_;
  std::mutex output_;
  std::list<place> clients_;
};

result<void> server::run() {
  while (true) {
    std::array<pollfd, 2> entries{pollfd{interrupted_.fd(), POLLIN, 0},
                                  pollfd{listener_.fd(), POLLIN, 0}};
    const auto milliseconds = std::chrono::milliseconds(look_interval).count();
    static_cast<void>(::poll(entries.data(), entries.size(), static_cast<int>(milliseconds)));
    join_finished();
    if (entries[0].revents != 0) return {};
    auto peer = listener_.accept(deadline::after(std::chrono::nanoseconds::zero()));
    if (peer) {
      admit(*std::move(peer));
    } else if (peer.error().kind() != verbena::error_kind::timed_out) {
      say(stderr, "rcopy: serve: " + peer.error().message());
      // Too many open files: clients that end make room. Meanwhile only the user is listened to.
      static_cast<void>(::poll(entries.data(), 1, static_cast<int>(milliseconds)));
    }
  }
}

void server::admit(stream peer) {
  if (clients_.size() >= options_.max_clients) {
    say(stderr, "rcopy: serve: turned away " + peer.peer() + ": all places are taken");
    peer.refuse("all " + std::to_string(options_.max_clients) +
                " places for clients are taken: try again later");
    return;
  }
  auto& added = clients_.emplace_back();
  try {
    added.thread = std::thread([this, &added, device = device_, peer = std::move(peer)]() mutable {
      serve(std::move(peer), device, added.finished);
    });
  } catch (const std::exception& problem) {
    clients_.pop_back();
    say(stderr, std::string("rcopy: serve: no thread for a client: ") + problem.what());
  }
}

void server::serve(stream peer, const verbena::context& device, std::atomic<bool>& finished) {
  try {
    const auto report = serve_client(peer, files_, device, options_, interrupted_.fd());
    if (!report.ok)
      say(stderr, "rcopy: serve: " + report.line);
    else if (!options_.quiet)
      say(stdout, report.line);
  } catch (const std::exception& problem) {  // out of memory
    say(stderr, "rcopy: serve: " + peer.peer() + ": " + problem.what());
  }
  finished = true;
}

void server::join_finished() {
  std::erase_if(clients_, [](place& each) {
    if (!each.finished) return false;
    each.thread.join();
    return true;
  });
}

void server::say(std::FILE* where, const std::string& line) {
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
  const std::string place = to_string(listener.local_address()) + " (" + device.name() + ")";
  server running(std::move(listener), std::move(files), std::move(device), options);
  // The signal handlers are installed, so the reader of this line may end the server.
  if (!options.quiet) {
    std::printf("serving %s at %s; Ctrl-C ends\n", options.directory.c_str(), place.c_str());
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
