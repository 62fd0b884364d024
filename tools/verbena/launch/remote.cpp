// SPDX-License-Identifier: MIT
// Starts one ssh per host, which runs an agent there, so the number of connections does not depend
// on the number of ranks. The first message to the agent, on its standard input, contains the
// secret.
#include "tools/verbena/launch/remote.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "tools/verbena/ended_process.hpp"
#include "tools/verbena/launch/agent_message.hpp"
#include "tools/verbena/launch/byte_streams.hpp"
#include "tools/verbena/launch/spawn.hpp"
#include "tools/verbena/signals.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/net/store.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t max_noise_bytes = std::size_t{64} << 10U;  // before the greeting of an agent
constexpr std::chrono::seconds time_to_close{10};  // from the end of the input of ssh to SIGTERM
constexpr std::chrono::seconds time_to_write{2};   // the rest of the output, after a signal
constexpr int ssh_failed = 255;

struct rank_lines {
  prefixed_lines output;
  prefixed_lines errors;
};

// The connection to a host. Threads: one thread at a time.
struct connection {
  launch_host host;
  std::uint32_t first_rank = 0;
  pid_t ssh = 0;  // 0: it has ended
  int ssh_status = 0;
  unique_fd input;
  unique_fd output;
  unique_fd errors;
  std::string to_send = {};
  std::string noise = {};        // output before the greeting
  std::string last_errors = {};  // the end of the standard error of ssh
  message_reader messages{max_text_bytes};
  prefixed_lines error_lines;
  std::map<std::uint32_t, rank_lines> ranks;  // those that have not ended
  bool has_agent = false;
  bool is_judged = false;  // its failure has been reported

  [[nodiscard]] bool is_open() const noexcept { return ssh != 0 || output || errors; }
};

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char each : text) {
    if (each == '\'')
      out += "'\\''";
    else
      out += each;
  }
  return out + "'";
}

// Returns the command for the shell of the user on a host.
std::string agent_command(const launch_options& options) {
  if (!options.agent.empty()) return "exec " + quoted(options.agent) + " launch-agent";
  std::error_code ignored;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (ignored) return "exec verbena launch-agent";
  const auto path = quoted(own.string());
  return "test -x " + path + " && exec " + path + " launch-agent || exec verbena launch-agent";
}

std::vector<std::string> ssh_command(const launch_host& to, const launch_options& options) {
  std::istringstream words(options.ssh);
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  if (!to.user.empty()) command.insert(command.end(), {"-l", to.user});
  if (to.port != 0) command.insert(command.end(), {"-p", std::to_string(to.port)});
  command.insert(command.end(), {to.name, agent_command(options)});
  return command;
}

// Returns the variables that the ranks receive.
result<std::vector<std::string>> passed_variables(const launch_options& options) {
  std::vector<std::string> passed;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::string_view(*each).starts_with("VERBENA_")) passed.emplace_back(*each);
  for (const char* const place : {"STORE", "SECRET", "NETWORK", "ETCD", "SERVICE"})
    std::erase_if(passed, [&](const std::string& each) {
      return each.starts_with("VERBENA_" + std::string(place) + "=");
    });
  for (const auto& each : options.variables) {
    const auto sign = each.find('=');
    if (each.empty() || sign == 0)
      return error::invalid_argument("verbena launch", "-x " + each, "a variable has no name");
    if (sign != std::string::npos) {
      passed.push_back(each);
      continue;
    }
    const char* const value = ::getenv(each.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr)
      return error::invalid_argument("verbena launch", "-x " + each,
                                     "the variable is not set here; set it, or write NAME=VALUE");
    passed.push_back(each + "=" + value);
  }
  return passed;
}

// Returns the remedy for a failure of ssh.
std::string remedy(std::string_view said, const launch_host& host) {
  const auto has = [&](std::string_view words) { return said.find(words) != said.npos; };
  if (has("Permission denied"))
    return "the host rejected the SSH key; `ssh " + host.name +
           " true` must succeed without a password (ssh-copy-id, ssh-agent)";
  if (has("Could not resolve hostname"))
    return "the name of the host is unknown; check its spelling in the list of hosts";
  if (has("Host key verification failed") || has("REMOTE HOST IDENTIFICATION HAS CHANGED"))
    return "the key of the host is not known; connect once with `ssh " + host.name +
           "` and check it";
  if (has("Connection refused"))
    return "no SSH server listens at this port of the host; check that sshd runs, and port=";
  if (has("timed out")) return "the host does not answer; check that it is up and reachable";
  return "see the message of ssh above";
}

bool are_one_file(int one, int other) {
  struct stat first{};
  struct stat second{};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Starts and watches the agents. Threads: one thread at a time.
class remote_launch {
 public:
  remote_launch(const launch_options& options, const awaited_signals& signals, unique_fd arrived)
      : options_(&options),
        signals_(&signals),
        arrived_(std::move(arrived)),
        errors_(are_one_file(STDOUT_FILENO, STDERR_FILENO)
                    ? output_
                    : separate_errors_.emplace(STDERR_FILENO)) {}

  int run(const std::vector<launch_host>& hosts, agent_job job) {
    for (const auto& host : hosts) {
      job.count = host.slots;
      if (!start(host, job)) break;
      job.first_rank += host.slots;
    }
    while (std::ranges::any_of(all_, &connection::is_open)) {
      wait();
      take_signals();
      check_readers();
      for (auto& each : all_) serve(each);
      if (kill_at_.expired()) {
        // A command that does not end by SIGTERM is killed.
        const int signal = std::exchange(is_terminated_, true) ? SIGKILL : SIGTERM;
        kill_at_ = signal == SIGTERM ? deadline::after(time_to_close) : deadline::never();
        for (const auto& each : all_)
          if (each.ssh != 0) ::kill(-each.ssh, signal);
      }
    }
    write_rest();
    return outcome_;
  }

 private:
  void say(const std::string& what) { errors_.add("verbena launch: " + what + "\n"); }

  // After a signal, discards output if its readers do not read for `time_to_write`, because the
  // messages about the end of the ranks follow this output.
  void check_readers() {
    const bool is_written = static_cast<int>(output_.acknowledge()) + errors_.acknowledge() != 0;
    if (!has_signal_ || is_written || !is_blocked())
      discard_at_ = deadline::after(time_to_write);
    else if (discard_at_.expired())
      for (auto* const each : {&output_, &errors_})
        if (!each->is_idle()) each->discard();
  }
  [[nodiscard]] deadline next_discard() const {
    return has_signal_ && is_blocked() ? discard_at_ : deadline::never();
  }
  [[nodiscard]] bool is_blocked() const { return !(output_.is_idle() && errors_.is_idle()); }
  [[nodiscard]] bool can_write() const { return !output_.is_full() && !errors_.is_full(); }

  // Writes the remaining output, and waits for its readers.
  void write_rest() {
    while (is_blocked()) {
      std::array<pollfd, 3> events{pollfd{.fd = arrived_.get(), .events = POLLIN, .revents = 0},
                                   pollfd{.fd = output_.fd(), .events = POLLIN, .revents = 0},
                                   pollfd{.fd = errors_.fd(), .events = POLLIN, .revents = 0}};
      ::poll(events.data(), events.size(), next_discard().poll_timeout_ms());
      while (const auto got = next_signal()) has_signal_ = has_signal_ || is_passed_on(*got);
      check_readers();
    }
  }

  [[nodiscard]] std::optional<int> next_signal() const {
    signalfd_siginfo got{};
    if (::read(arrived_.get(), &got, sizeof got) != static_cast<ssize_t>(sizeof got))
      return std::nullopt;
    return static_cast<int>(got.ssi_signo);
  }
  static bool is_passed_on(int signal) { return signal == SIGINT || signal == SIGTERM; }

  void fail(int status, const std::string& why) {
    say(why);
    if (outcome_ == 0) outcome_ = status;
  }

  // Ends all agents, for example because the group cannot become complete.
  void end_all() {
    if (std::exchange(is_ending_, true)) return;
    kill_at_ = deadline::after(time_to_close);
    for (auto& each : all_) each.input.reset();
  }

  bool start(const launch_host& host, const agent_job& job) {
    std::array<std::array<int, 2>, 3> pipes;
    std::array<unique_fd, 6> ends;
    for (std::size_t each = 0; each < pipes.size(); ++each) {
      if (::pipe2(pipes[each].data(), O_CLOEXEC) != 0) return cannot_start(host, "pipe2", errno);
      ends[2 * each].reset(pipes[each][0]);
      ends[2 * each + 1].reset(pipes[each][1]);
    }
    const auto command = ssh_command(host, *options_);
    // Not in the group of the terminal, whose signals would end the connections.
    const auto made = spawn(command, {.streams = {pipes[0][0], pipes[1][1], pipes[2][1]},
                                      .mask = signals_->before(),
                                      .has_own_group = true});
    if (made.pid == 0) return cannot_start(host, command.front(), made.code);
    for (const int each : {pipes[0][1], pipes[1][0], pipes[2][0]})
      ::fcntl(each, F_SETFL, O_NONBLOCK);
    all_.push_back({.host = host,
                    .first_rank = job.first_rank,
                    .ssh = made.pid,
                    .input = std::move(ends[1]),
                    .output = std::move(ends[2]),
                    .errors = std::move(ends[4]),
                    .error_lines = {errors_, "[" + host.name + "] "},
                    .ranks = {}});
    auto& added = all_.back();
    append_message(added.to_send, {.kind = message_kind::job, .text = encode_job(job)});
    for (std::uint32_t each = 0; each < job.count; ++each) {
      const std::string prefix = "[" + std::to_string(job.first_rank + each) + "] ";
      added.ranks.emplace(job.first_rank + each, rank_lines{{output_, prefix}, {errors_, prefix}});
    }
    return true;
  }
  bool cannot_start(const launch_host& host, const std::string& call, int code) {
    fail(run_status::failed, "host " + host.name + ": " + call +
                                 " could not be started: " + std::generic_category().message(code));
    end_all();
    return false;
  }

  void wait() {
    std::vector<pollfd> events{{.fd = arrived_.get(), .events = POLLIN, .revents = 0},
                               {.fd = output_.fd(), .events = POLLIN, .revents = 0},
                               {.fd = errors_.fd(), .events = POLLIN, .revents = 0}};
    const bool can_read = can_write();
    for (const auto& each : all_) {
      if (each.output && can_read)
        events.push_back({.fd = each.output.get(), .events = POLLIN, .revents = 0});
      if (each.errors && can_read)
        events.push_back({.fd = each.errors.get(), .events = POLLIN, .revents = 0});
      if (each.input && !each.to_send.empty())
        events.push_back({.fd = each.input.get(), .events = POLLOUT, .revents = 0});
    }
    const auto discard_at = next_discard();
    const auto until = discard_at.when() < kill_at_.when() ? discard_at : kill_at_;
    ::poll(events.data(), events.size(), until.poll_timeout_ms());
  }

  void take_signals() {
    while (const auto got = next_signal()) {
      if (!is_passed_on(*got)) continue;
      has_signal_ = true;
      bool has_agents = false;
      for (auto& each : all_) {
        has_agents = has_agents || each.has_agent;
        append_message(
            each.to_send,
            {.kind = message_kind::signal, .number = static_cast<std::uint32_t>(*got), .text = {}});
      }
      if (has_agents) continue;
      fail(exit_status_of_signal(*got), "a signal arrived before the hosts answered");
      end_all();
    }
  }

  void serve(connection& with) {
    if (!with.is_open()) return;
    send(with);
    if (can_write()) {
      receive(with);
      receive_errors(with);
    }
    int ended = 0;
    if (with.ssh != 0 && ::waitpid(with.ssh, &ended, WNOHANG) == with.ssh) {
      with.ssh = 0;
      with.ssh_status = exit_status_of(ended);
      drain(with);
    }
    if (!with.is_open()) judge(with);
  }

  // Reads what ssh wrote before its end. Its children, for example the master of shared
  // connections, may keep the pipes open.
  void drain(connection& from) {
    constexpr int most_reads = 32;  // more than a pipe holds
    for (int i = 0; i < most_reads; ++i) {
      receive(from);
      receive_errors(from);
    }
    from.output.reset();
    from.errors.reset();
  }

  static void receive_errors(connection& from) {
    if (!from.errors) return;
    std::string bytes;
    if (read_some(from.errors.get(), bytes) == read_outcome::end) from.errors.reset();
    from.error_lines.add(bytes);
    from.last_errors += bytes;
    if (from.last_errors.size() > 4096) from.last_errors.erase(0, from.last_errors.size() - 4096);
  }

  static void send(connection& to) {
    while (to.input && !to.to_send.empty()) {
      const auto count = ::write(to.input.get(), to.to_send.data(), to.to_send.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno != EAGAIN) to.input.reset();  // judge() reports the end of ssh
      if (count < 0) return;
      to.to_send.erase(0, static_cast<std::size_t>(count));
    }
  }

  void receive(connection& from) {
    if (!from.output) return;
    std::string bytes;
    if (read_some(from.output.get(), bytes) == read_outcome::end) from.output.reset();
    if (bytes.empty()) return;
    if (!from.has_agent) {
      from.noise += bytes;
      const auto at = from.noise.find(agent_greeting);
      if (at == std::string::npos) {
        if (from.noise.size() > max_noise_bytes)
          break_with(from, "it printed " + std::to_string(from.noise.size()) +
                               " bytes, but not the greeting of `verbena launch-agent`");
        return;
      }
      bytes = from.noise.substr(at + agent_greeting.size());
      from.noise.clear();
      from.has_agent = true;
    }
    from.messages.add(bytes);
    while (from.output) {
      auto next = from.messages.next();
      if (!next) return break_with(from, next.error().message());
      if (!*next) return;
      take(from, **next);
    }
  }

  void break_with(connection& with, const std::string& why) {
    fail(run_status::failed, "host " + with.host.name + ": " + why);
    with.is_judged = true;
    with.input.reset();
    with.output.reset();
    if (with.ssh != 0) ::kill(-with.ssh, SIGTERM);
    end_all();
  }

  void take(connection& from, const agent_message& message) {
    if (message.kind == message_kind::refused) {
      fail(message.number == 0 || message.number > 255 ? run_status::failed
                                                       : static_cast<int>(message.number),
           "host " + from.host.name + ": " + message.text);
      from.is_judged = true;
      return end_all();
    }
    const auto rank = from.ranks.find(message.rank);
    if (rank == from.ranks.end())
      return break_with(from, "it sent a message of rank " + std::to_string(message.rank) +
                                  ", which does not run there");
    if (message.kind == message_kind::output) return rank->second.output.add(message.text);
    if (message.kind == message_kind::errors) return rank->second.errors.add(message.text);
    if (message.kind != message_kind::ended)
      return break_with(from, "it sent a message for agents");
    rank->second.output.end();
    rank->second.errors.end();
    from.ranks.erase(rank);
    const int ended = static_cast<int>(message.number);
    if (exit_status_of(ended) != 0 && !from.is_judged)
      fail(exit_status_of(ended), "rank " + std::to_string(message.rank) + " (process " +
                                      message.text + " on " + from.host.name + ") " +
                                      describe_end(ended));
  }

  // Reports the failure of a connection after its ssh has ended.
  void judge(connection& of) {
    of.error_lines.end();
    for (auto& [rank, lines] : of.ranks) {
      lines.output.end();
      lines.errors.end();
    }
    if (std::exchange(of.is_judged, true) || of.ranks.empty()) return;
    const bool was_ended = is_ending_;
    const std::string host = "host " + of.host.name + ": ";
    if (of.has_agent) {
      if (!was_ended)
        fail(run_status::failed, host + "the connection was lost; " +
                                     std::to_string(of.ranks.size()) +
                                     " ranks there have not reported their end");
      return;
    }
    if (was_ended) return;
    if (of.ssh_status == ssh_failed)
      fail(run_status::failed, host + "ssh failed: " + remedy(of.last_errors, of.host));
    else if (of.ssh_status == run_status::not_found || of.ssh_status == run_status::cannot_execute)
      fail(run_status::failed, host +
                                   "the program `verbena` was not found there; install Verbena's "
                                   "tools on the host, or give their path with --agent");
    else
      fail(run_status::failed,
           host + "the agent ended with status " + std::to_string(of.ssh_status) +
               " before it started; check that both hosts have the same version of Verbena");
    end_all();
  }

  static int exit_status_of_signal(int which) { return 128 + which; }

  const launch_options* options_;
  const awaited_signals* signals_;
  unique_fd arrived_;  // a signalfd
  output_thread output_{STDOUT_FILENO};
  std::optional<output_thread> separate_errors_;
  output_thread& errors_;  // `output_` if both are one file: one thread keeps lines whole
  std::vector<connection> all_;
  int outcome_ = 0;
  bool is_ending_ = false;      // this launcher ends the connections
  bool is_terminated_ = false;  // by SIGTERM
  bool has_signal_ = false;     // a signal arrived, and was forwarded to the ranks
  deadline kill_at_ = deadline::never();
  deadline discard_at_ = deadline::never();
};

}  // namespace

int launch_on(const std::vector<launch_host>& hosts, const launch_options& options) {
  const awaited_signals signals({SIGINT, SIGTERM, SIGCHLD, SIGPIPE});
  const auto refuse = [](const std::string& why) {
    std::cerr << "verbena launch: " + why + "\n";
    return run_status::failed;
  };
  auto variables = passed_variables(options);
  if (!variables) return refuse(variables.error().message());
  agent_job job{.folder = std::filesystem::current_path().string(),
                .store_host = options.address,
                .secret = net::random_secret(),
                .variables = *std::move(variables),
                .command = options.command};
  const auto store = net::store::open({.host = options.address}, {.secret = job.secret});
  if (!store) return refuse(store.error().message());
  job.store_port = store->local_address().port;
  job.size = 0;
  for (const auto& each : hosts) job.size += each.slots;
  if (encode_job(job).size() > max_job_bytes)
    return refuse("the arguments and variables exceed " + std::to_string(max_job_bytes) + " bytes");
  unique_fd arrived(signals.open_descriptor());
  if (!arrived) return refuse("signalfd: " + std::generic_category().message(errno));
  std::cout.flush();
  return remote_launch(options, signals, std::move(arrived)).run(hosts, std::move(job));
}

}  // namespace verbena::tool
