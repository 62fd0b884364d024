// SPDX-License-Identifier: MIT
// Processes that are all connected to each other. Memory is the proportional set size (Pss of
// /proc/self/smaps_rollup), whose sum over the processes counts each page once: pages that no
// process has touched do not count, nor does memory of the kernel.
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/scale/scale_modes.hpp"
#include "bench/scale/scale_side.hpp"
#include "verbena/base/fd.hpp"

namespace bench {
namespace {

constexpr unsigned most_seconds = 300;
constexpr std::size_t endpoint_bytes = verbena::endpoint::encoded_size;

// The memory, descriptors and threads of a process at one moment.
struct holdings {
  double memory_kib = 0;
  double descriptors = 0;
  double threads = 0;
};

double number_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr);
  fail("a file in /proc/self has no such line");
}

double descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) fail("no /proc/self/fd");
  double count = -3;  // the folder's own, "." and ".."
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

holdings now() {
  return {number_of("/proc/self/smaps_rollup", "Pss:"), descriptors(),
          number_of("/proc/self/status", "Threads:")};
}

double processor_ms() {
  timespec time{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) fail("no processor time");
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

void send_bytes(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("a process of the crowd is gone");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void receive_bytes(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("a process of the crowd is gone");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

template <class Value>
void send_value(int socket, const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  send_bytes(socket, std::as_bytes(std::span(&value, 1)));
}

template <class Value>
Value receive_value(int socket) {
  Value value{};
  receive_bytes(socket, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Waits until all processes have called it.
void meet(int socket) {
  send_value(socket, char{1});
  static_cast<void>(receive_value<char>(socket));
}

// One process: connects to all others and reports to the parent.
int member(int parent, std::size_t processes, std::size_t self) {
  const auto context = verbena::open_device("soft0").value();
  const auto pd = context.allocate_pd().value();
  const auto depth = static_cast<std::uint32_t>(4 * processes);
  const auto sends = context.create_cq(depth).value();
  const auto receives = context.create_cq(depth).value();
  const auto region = pd.allocate(4096, verbena::access::local_write | peer_access).value();
  std::vector<verbena::prepared_queue_pair<verbena::rc>> prepared;
  std::vector<std::byte> mine;
  for (std::size_t other = 0; other < processes; ++other) {
    prepared.push_back(pd.create_qp<verbena::rc>(sends, receives, {.access = peer_access}).value());
    const auto encoded = prepared.back().endpoint().encode();
    mine.insert(mine.end(), encoded.begin(), encoded.end());
  }
  send_bytes(parent, mine);
  std::vector<std::byte> theirs(processes * endpoint_bytes);
  receive_bytes(parent, theirs);
  send_value(parent, now());
  meet(parent);

  std::vector<verbena::queue_pair<verbena::rc>> qps;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t other = 0; other < processes; ++other) {
    if (other == self) continue;
    const auto bytes = std::span(theirs).subspan(other * endpoint_bytes).first<endpoint_bytes>();
    qps.push_back(
        std::move(prepared[other]).handshake(verbena::endpoint::decode(bytes).value()).value());
    auto batch = qps.back().start_receive();
    batch.receive({}, region.slice(0, 8));
    batch.submit().value();
  }
  meet(parent);
  for (auto& each : qps) {
    auto batch = each.start_send();
    batch.send({.signaled = true}, region.slice(8, 8));
    batch.submit().value();
  }
  drain(sends, qps.size());
  drain(receives, qps.size());
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  send_value(parent, spent.count());
  meet(parent);
  // lint: allow(sleep): the process is to become idle
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  send_value(parent, now());
  meet(parent);
  constexpr double seconds = 3;
  const double before = processor_ms();
  // lint: allow(sleep): the time in which it is idle
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  send_value(parent, (processor_ms() - before) / seconds);
  meet(parent);
  return 0;
}

struct crowd_of {
  std::vector<verbena::unique_fd> sockets;

  template <class Value>
  [[nodiscard]] std::vector<Value> receive() const {
    std::vector<Value> all;
    all.reserve(sockets.size());
    for (const auto& each : sockets) all.push_back(receive_value<Value>(each.get()));
    return all;
  }
  void meet() const {
    static_cast<void>(receive<char>());
    for (const auto& each : sockets) send_value(each.get(), char{1});
  }
};

crowd_of start(std::size_t processes) {
  crowd_of made;
  for (std::size_t self = 0; self < processes; ++self) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail("no socket pair");
    const pid_t child = ::fork();
    if (child < 0) fail("cannot fork");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(most_seconds);
      made.sockets.clear();
      ::close(ends[0]);
      std::_Exit(member(ends[1], processes, self));
    }
    ::close(ends[1]);
    made.sockets.emplace_back(ends[0]);
  }
  return made;
}

// Gives each process the endpoints that the others made for it.
void pass_endpoints(const crowd_of& all) {
  const std::size_t processes = all.sockets.size();
  std::vector<std::vector<std::byte>> made(processes,
                                           std::vector<std::byte>(processes * endpoint_bytes));
  for (std::size_t from = 0; from < processes; ++from)
    receive_bytes(all.sockets[from].get(), made[from]);
  for (std::size_t to = 0; to < processes; ++to) {
    for (std::size_t from = 0; from < processes; ++from)
      send_bytes(all.sockets[to].get(),
                 std::span(made[from]).subspan(to * endpoint_bytes, endpoint_bytes));
  }
}

double total(const std::vector<holdings>& all, double holdings::* what) {
  double sum = 0;
  for (const auto& each : all) sum += each.*what;
  return sum;
}

}  // namespace

std::string crowd(std::size_t processes) {
  ::alarm(most_seconds);
  const crowd_of all = start(processes);
  pass_endpoints(all);
  const auto before = all.receive<holdings>();
  all.meet();
  all.meet();
  const auto connected = all.receive<double>();
  all.meet();
  const auto after = all.receive<holdings>();
  all.meet();
  const auto idle = all.receive<double>();
  all.meet();
  for (std::size_t i = 0; i < processes; ++i) {
    int status = 0;
    if (::wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail("a process of the crowd failed");
  }
  const auto count = static_cast<double>(processes);
  const double pairs = count * (count - 1) / 2;
  const auto grown = [&](double holdings::* what) {
    return total(after, what) - total(before, what);
  };
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(),
                "process_kib %.1f\nprocess_descriptors %.2f\nprocess_threads %.2f\n"
                "pair_kib %.2f\npeer_descriptors %.3f\n"
                "connect_ms %.2f\nidle_ms_per_s %.3f",
                total(after, &holdings::memory_kib) / count,
                total(after, &holdings::descriptors) / count,
                total(after, &holdings::threads) / count, grown(&holdings::memory_kib) / pairs,
                grown(&holdings::descriptors) / (2 * pairs), *std::ranges::max_element(connected),
                *std::ranges::max_element(idle));
  return text.data();
}

}  // namespace bench
