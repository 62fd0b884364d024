// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/agent.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/verbena/launch/agent_message.hpp"
#include "tools/verbena/launch/byte_streams.hpp"
#include "tools/verbena/launch/spawn.hpp"
#include "tools/verbena/signals.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::tool {
namespace {

constexpr std::chrono::seconds time_to_end{5};  // from SIGTERM to SIGKILL
constexpr std::chrono::seconds time_to_write{2};

// A pipe from a rank.
struct rank_output {
  std::size_t rank = 0;  // index of the rank
  message_kind kind = message_kind::output;
  unique_fd end;
};

struct refused_job {
  int status = run_status::failed;
  std::string why;
};

std::string text_of(int code) { return std::generic_category().message(code); }

bool set_variable(const std::string& name, const std::string& value) {
  return ::setenv(name.c_str(), value.c_str(), 1) == 0;  // NOLINT(concurrency-mt-unsafe)
}

// Returns the address of the store for this host.
std::optional<bringup::address> store_of(const agent_job& job) {
  bringup::address at{.host = job.store_host, .port = job.store_port};
  if (!at.host.empty()) return at;
  const char* const peer = std::getenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe)
  if (peer == nullptr) return std::nullopt;
  const std::string_view text(peer);
  at.host = text.substr(0, text.find(' '));
  return at.host.empty() ? std::nullopt : std::optional(at);
}

// Runs the ranks. Threads: one thread at a time.
class agent {
 public:
  agent(const awaited_signals& signals, unique_fd arrived)
      : signals_(&signals), arrived_(std::move(arrived)) {}

  int run() {
    output_.add(agent_greeting);
    while (is_needed()) {
      wait();
      serve();
    }
    // The launcher closes the connection after it has read the messages, possibly late.
    while (!output_.is_idle() && !write_until_.expired()) {
      wait();
      serve();
    }
    return 0;
  }

 private:
  [[nodiscard]] bool is_needed() const {
    if (!is_started_) return !is_ending_;
    return std::ranges::any_of(ranks_, [](pid_t each) { return each != 0; });
  }

  void serve() {
    output_.acknowledge();
    if (output_.has_failed()) end_ranks();
    read_commands();
    read_outputs();
    take_ended();
    if (kill_at_.expired()) {
      kill_at_ = deadline::never();
      send_signal(SIGKILL);
    }
  }

  void wait() {
    std::vector<pollfd> events{{.fd = arrived_.get(), .events = POLLIN, .revents = 0},
                               {.fd = output_.fd(), .events = POLLIN, .revents = 0}};
    if (!is_ending_) events.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
    const bool can_read = !output_.is_full();
    for (const auto& each : outputs_)
      if (can_read) events.push_back({.fd = each.end.get(), .events = POLLIN, .revents = 0});
    // `write_until_` applies only after all ranks have ended.
    const auto write_until = is_needed() ? deadline::never() : write_until_;
    const auto until = kill_at_.when() < write_until.when() ? kill_at_ : write_until;
    ::poll(events.data(), events.size(), until.poll_timeout_ms());
  }

  void send(message_kind kind, std::size_t index, std::uint32_t number, std::string text) {
    std::string bytes;
    append_message(bytes, {.kind = kind,
                           .rank = first_rank_ + static_cast<std::uint32_t>(index),
                           .number = number,
                           .text = std::move(text)});
    output_.add(bytes);
  }

  void send_signal(int which) {
    for (const pid_t each : ranks_)
      if (each != 0) ::kill(-each, which);
  }

  // Ends the ranks after the launcher has ended or its connection was closed.
  void end_ranks() {
    if (is_ending_) return;
    is_ending_ = true;
    kill_at_ = deadline::after(time_to_end);
    write_until_ = deadline::after(time_to_end + time_to_write);
    send_signal(SIGTERM);
  }

  void read_commands() {
    if (is_ending_) return;
    pollfd event{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&event, 1, 0) <= 0) return;
    std::string bytes;
    if (read_some(STDIN_FILENO, bytes) != read_outcome::bytes) return end_ranks();
    commands_.add(bytes);
    while (!is_ending_) {
      const auto next = commands_.next();
      if (!next) {
        std::cerr << "verbena launch-agent: " + next.error().message() + "\n";
        return end_ranks();
      }
      if (!*next) return;
      obey(**next);
    }
  }

  void obey(const agent_message& message) {
    if (message.kind == message_kind::signal &&
        (message.number == SIGINT || message.number == SIGTERM))
      return send_signal(static_cast<int>(message.number));
    if (message.kind == message_kind::job && !is_started_) {
      if (const auto refused = start(message.text)) {
        send(message_kind::refused, 0, static_cast<std::uint32_t>(refused->status), refused->why);
        end_ranks();
      }
      return;
    }
    std::cerr << "verbena launch-agent: an unexpected message arrived\n";
    end_ranks();
  }

  std::optional<refused_job> start(const std::string& text) {
    const auto job = decode_job(text);
    if (!job) return refused_job{.why = job.error().message()};
    first_rank_ = job->first_rank;
    if (::chdir(job->folder.c_str()) != 0)
      return refused_job{.why = "the working folder " + job->folder +
                                " cannot be used: " + text_of(errno)};
    const auto store = store_of(*job);
    if (!store)
      return refused_job{
          .why =
              "SSH_CONNECTION is not set on this host, so the address of the store is not "
              "known; give it with --address"};
    bool is_set = set_variable("VERBENA_STORE", to_string(*store)) &&
                  set_variable("VERBENA_SECRET", job->secret) &&
                  set_variable("WORLD_SIZE", std::to_string(job->size));
    for (const auto& each : job->variables) {
      const auto sign = each.find('=');
      is_set = is_set && set_variable(each.substr(0, sign), each.substr(sign + 1));
    }
    ::unsetenv("VERBENA_NETWORK");  // NOLINT(concurrency-mt-unsafe): one thread
    if (!is_set) return refused_job{.why = "the environment could not be set"};
    is_started_ = true;
    for (std::uint32_t each = 0; each < job->count; ++each)
      if (auto refused = start_rank(*job, each)) return refused;
    return std::nullopt;
  }

  std::optional<refused_job> start_rank(const agent_job& job, std::uint32_t index) {
    const std::string rank = std::to_string(job.first_rank + index);
    const auto failed = [&](int code, int status) {
      return refused_job{.status = status,
                         .why = "rank " + rank + ": " + job.command.front() + ": " + text_of(code)};
    };
    if (!set_variable("RANK", rank) || !set_variable("LOCAL_RANK", std::to_string(index)))
      return failed(errno, run_status::failed);
    const unique_fd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    std::array<int, 2> out{-1, -1};
    std::array<int, 2> err{-1, -1};
    if (::pipe2(out.data(), O_CLOEXEC) != 0) return failed(errno, run_status::failed);
    unique_fd out_end(out[0]);
    const unique_fd out_of_rank(out[1]);
    if (::pipe2(err.data(), O_CLOEXEC) != 0) return failed(errno, run_status::failed);
    unique_fd err_end(err[0]);
    const unique_fd err_of_rank(err[1]);
    for (const int each : {out_end.get(), err_end.get()}) ::fcntl(each, F_SETFL, O_NONBLOCK);
    const auto made = spawn(job.command, {.streams = {input.get(), out[1], err[1]},
                                          .mask = signals_->before(),
                                          .has_own_group = true});
    if (made.pid == 0) return failed(made.code, made.status);
    outputs_.push_back({.rank = index, .kind = message_kind::output, .end = std::move(out_end)});
    outputs_.push_back({.rank = index, .kind = message_kind::errors, .end = std::move(err_end)});
    ranks_.push_back(made.pid);
    return std::nullopt;
  }

  void read_outputs() {
    std::erase_if(outputs_, [this](const rank_output& each) {
      return !output_.is_full() && read_output(each) == read_outcome::end;
    });
  }
  read_outcome read_output(const rank_output& from) {
    std::string bytes;
    const auto outcome = read_some(from.end.get(), bytes);
    if (outcome == read_outcome::bytes) send(from.kind, from.rank, 0, std::move(bytes));
    return outcome;
  }

  void take_ended() {
    std::string received;
    static_cast<void>(read_some(arrived_.get(), received));
    for (std::size_t offset = 0; offset + sizeof(signalfd_siginfo) <= received.size();
         offset += sizeof(signalfd_siginfo)) {
      signalfd_siginfo each{};
      std::memcpy(&each, received.data() + offset, sizeof each);
      if (each.ssi_signo != SIGCHLD) end_ranks();
    }
    for (std::size_t each = 0; each < ranks_.size(); ++each)
      if (ranks_[each] != 0) take_if_ended(each);
  }
  void take_if_ended(std::size_t rank) {
    const pid_t process = ranks_[rank];
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != process)
      return;
    // Kills the children of the rank. Its process id cannot be reused before waitpid(2).
    if (is_ending_) ::kill(-process, SIGKILL);
    int ended = 0;
    ::waitpid(process, &ended, 0);
    ranks_[rank] = 0;
    drain(rank);
    // The launcher does not accept output of a rank that has ended.
    std::erase_if(outputs_, [rank](const auto& each) { return each.rank == rank; });
    send(message_kind::ended, rank, static_cast<std::uint32_t>(ended), std::to_string(process));
  }
  // Sends what the rank wrote before its end. Its children may keep the pipes open.
  void drain(std::size_t rank) {
    constexpr int most_reads = 32;  // more than a pipe holds
    for (const auto& each : outputs_) {
      if (each.rank != rank) continue;
      for (int i = 0; i < most_reads && read_output(each) == read_outcome::bytes; ++i) continue;
    }
  }

  const awaited_signals* signals_;
  unique_fd arrived_;  // a signalfd
  message_reader commands_{max_job_bytes};
  std::vector<pid_t> ranks_;  // 0: it has ended
  std::vector<rank_output> outputs_;
  std::uint32_t first_rank_ = 0;
  bool is_started_ = false;
  bool is_ending_ = false;
  deadline kill_at_ = deadline::never();
  deadline write_until_ = deadline::never();
  output_thread output_{STDOUT_FILENO};
};

}  // namespace

int execute(const agent_options& /*options*/) {
  const awaited_signals signals({SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE});
  unique_fd arrived(signals.open_descriptor());
  if (!arrived) {
    std::cerr << "verbena launch-agent: signalfd: " + text_of(errno) + "\n";
    return run_status::failed;
  }
  return agent(signals, std::move(arrived)).run();
}

}  // namespace verbena::tool
